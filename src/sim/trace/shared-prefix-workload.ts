/**
 * Synthetic workloads: requests of several groups, each with its own long prefix (a system prompt, a document), in
 * random order with random arrivals (Poisson).
 */
import { randomInt, seededRandom } from '../../base/index.ts'
import { TRACE_BLOCK_TOKENS } from './trace-request.ts'
import type { TraceRequest } from './trace-request.ts'

export interface SharedPrefixOptions {
  readonly requests: number
  readonly groups: number
  /** In blocks of 512 tokens. */
  readonly prefixBlocks: number
  /** Tokens after the prefix, different in every request. */
  readonly questionTokens: number
  readonly outputTokens: number
  readonly requestsPerSecond: number
  readonly seed: number
}

export function sharedPrefixWorkload(options: SharedPrefixOptions): TraceRequest[] {
  const { requests, groups, prefixBlocks, questionTokens, outputTokens } = options
  const random = seededRandom(options.seed)
  const questionBlocks = Math.ceil(questionTokens / TRACE_BLOCK_TOKENS)
  let atMs = 0
  let nextId = groups * prefixBlocks
  return Array.from({ length: requests }, () => {
    const group = randomInt(random, groups)
    const prefix = Array.from({ length: prefixBlocks }, (_, i) => group * prefixBlocks + i)
    const question = Array.from({ length: questionBlocks }, () => nextId++)
    const request: TraceRequest = {
      atMs,
      inputTokens: prefixBlocks * TRACE_BLOCK_TOKENS + questionTokens,
      outputTokens,
      hashIds: [...prefix, ...question],
    }
    atMs += (-Math.log(1 - random.next()) * 1000) / options.requestsPerSecond
    return request
  })
}
