/**
 * How a single token is shown beside its log-probability.
 */
import type { TokenFaces } from '../api/index.ts'
import type { Tokenizer } from '../text/index.ts'

export function tokenFaces(tokenizer: Tokenizer, asIds: boolean): TokenFaces {
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
