/**
 * Makes the request that continues after the tokens generated so far.
 */
import { usageOf } from '../../request/index.ts'
import type { Chunk, GenerateRequest, OutputOptions } from '../../request/index.ts'

/**
 * Null when all requested tokens were generated. `minTokens` includes the resumed tokens and stays the same.
 */
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
    output: tokens.length === 0 ? origin.output : withoutScores(origin.output),
    stop:
      maxTokens === undefined
        ? origin.stop
        : { ...origin.stop, maxTokens: maxTokens - tokens.length },
    resumedTokens: (origin.resumedTokens ?? 0) + tokens.length,
  }
}

/** They came before the first token; now they would include those of the resumed tokens. */
function withoutScores(output: OutputOptions): OutputOptions {
  const { promptLogprobs: _, ...rest } = output
  return rest
}

/**
 * Converts a chunk of an attempt to one of the whole request: resumed tokens count as output, not as prompt.
 */
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
