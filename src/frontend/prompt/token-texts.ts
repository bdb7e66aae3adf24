/**
 * How a single token is shown beside its log-probability.
 */
import type { TokenTexts } from '../../api/index.ts'
import type { Tokenizer } from '../../text/index.ts'

export function tokenTexts(tokenizer: Tokenizer, asIds: boolean): TokenTexts {
  const decoder = new TextDecoder()
  return (tokenId) => {
    const isSpecial = tokenizer.isSpecial(tokenId)
    const bytes = isSpecial
      ? new TextEncoder().encode(tokenizer.tokenName(tokenId))
      : tokenizer.tokenBytes(tokenId)
    return {
      text: asIds ? `token_id:${tokenId}` : decoder.decode(bytes),
      bytes: Array.from(bytes),
    }
  }
}
