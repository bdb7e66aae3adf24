/**
 * A request that goes on behind the tokens that have been generated so far.
 */
import { usageOf } from '../../request/index.ts'
import type { Chunk, GenerateRequest } from '../../request/index.ts'

/** Null when everything that was asked for has been generated. `minTokens` counts the resumed tokens and stays. */
export function resumedRequest(
  origin: GenerateRequest,
  tokens: Uint32Array,
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

/** What an attempt says of its tokens, as said of the whole request: the resumed ones are output and not prompt. */
export function withoutResumed(chunk: Chunk, resumedTokens: number): Chunk {
  if (resumedTokens === 0 || chunk.usage === undefined) return chunk
  const { promptTokens, completionTokens, cachedTokens } = chunk.usage
  const usage = usageOf(
    Math.max(0, promptTokens - resumedTokens),
    completionTokens + resumedTokens,
    cachedTokens,
  )
  return { ...chunk, usage }
}
