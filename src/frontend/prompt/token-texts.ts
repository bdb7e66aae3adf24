/**
 * How a single token is shown beside its log-probability.
 */
import type { TokenTexts } from '../../api/index.ts'
import type { Tokenizer } from '../../text/index.ts'

const decoder = new TextDecoder()
const encoder = new TextEncoder()

export function tokenTexts(tokenizer: Tokenizer, asIds: boolean): TokenTexts {
  return (tokenId) => {
    const isSpecial = tokenizer.isSpecial(tokenId)
    const bytes = isSpecial
      ? encoder.encode(tokenizer.tokenName(tokenId))
      : tokenizer.tokenBytes(tokenId)
    return {
      text: asIds ? `token_id:${tokenId}` : decoder.decode(bytes),
      bytes: Array.from(bytes),
    }
  }
}
