/**
 * A minimum number of tokens for a server without that field: first this many tokens without any end, then the rest.
 */
import { BatonError } from '../base/index.ts'
import { usageOf } from '../request/index.ts'
import type { Chunk, GenerateRequest } from '../request/index.ts'

type Generate = (request: GenerateRequest) => AsyncIterable<Chunk>

/**
 * How many tokens must be generated before an end is allowed. Throws for structured output: the rest would begin the
 * grammar again in the middle of a text, and the whole would not be valid.
 */
export function tokensOwed({ sampling, stop, resumedTokens = 0 }: GenerateRequest): number {
  const owed = Math.max(0, (stop.minTokens ?? 0) - resumedTokens)
  if (owed > 0 && sampling.guided !== undefined) {
    throw new BatonError(
      'request.unsupported_parameter',
      '`min_tokens` is not supported with structured output or a forced tool call: the engine has no such field',
      { data: { param: 'min_tokens' } },
    )
  }
  return Math.min(owed, stop.maxTokens ?? Infinity)
}

export async function* generateInTwo(
  request: GenerateRequest,
  owed: number,
  generate: Generate,
): AsyncIterable<Chunk> {
  const made: number[] = []
  let cachedTokens: number | undefined
  for await (const chunk of generate(withoutEnds(request, owed))) {
    if (chunk.finish === undefined) {
      made.push(...chunk.tokenIds)
      yield chunk
      continue
    }
    if (chunk.finish !== 'length' || made.length < owed || owed === request.stop.maxTokens) {
      yield chunk
      return
    }
    // Of the prompt. The rest finds the tokens made here in the cache, too.
    cachedTokens = chunk.usage?.cachedTokens
  }
  const promptTokens = request.tokenIds.length
  for await (const chunk of generate(theRest(request, made))) {
    const { usage } = chunk
    yield usage === undefined
      ? chunk
      : {
          ...chunk,
          usage: usageOf(promptTokens, usage.completionTokens + made.length, cachedTokens),
        }
  }
}

/** Excludes everything that would end the output. */
function withoutEnds(request: GenerateRequest, owed: number): GenerateRequest {
  const { sampling, stop } = request
  const never = Object.fromEntries((stop.stopTokenIds ?? []).map((id) => [id, -Infinity]))
  const { minTokens: _min, stopTokenIds: _ids, ...others } = stop
  return {
    ...request,
    sampling: { ...sampling, logitBias: { ...sampling.logitBias, ...never } },
    stop: { ...others, maxTokens: owed, ignoreEos: true },
  }
}

function theRest(request: GenerateRequest, made: readonly number[]): GenerateRequest {
  const { minTokens: _min, stop: _texts, maxTokens, ...others } = request.stop
  const tokenIds = new Uint32Array(request.tokenIds.length + made.length)
  tokenIds.set(request.tokenIds)
  tokenIds.set(made, request.tokenIds.length)
  return {
    ...request,
    tokenIds,
    stop: { ...others, ...(maxTokens === undefined ? {} : { maxTokens: maxTokens - made.length }) },
    resumedTokens: (request.resumedTokens ?? 0) + made.length,
  }
}
