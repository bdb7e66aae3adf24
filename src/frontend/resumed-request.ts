/**
 * A request that goes on behind the tokens that have been generated so far.
 */
import type { GenerateRequest } from '../request/index.ts'

/** Null when everything that was asked for has been generated. `minTokens` counts the resumed tokens and stays. */
export function resumedRequest(
  origin: GenerateRequest,
  tokens: readonly number[],
): GenerateRequest | null {
  const { maxTokens } = origin.stop
  if (maxTokens !== undefined && tokens.length >= maxTokens) return null
  const tokenIds = new Uint32Array(origin.tokenIds.length + tokens.length)
  tokenIds.set(origin.tokenIds)
  tokenIds.set(tokens, origin.tokenIds.length)
  return {
    ...origin,
    tokenIds,
    stop:
      maxTokens === undefined
        ? origin.stop
        : { ...origin.stop, maxTokens: maxTokens - tokens.length },
    resumedTokens: (origin.resumedTokens ?? 0) + tokens.length,
  }
}
