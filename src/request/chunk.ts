/**
 * The items of a worker's reply stream.
 *
 * Order: any number of chunks without `finish`, then exactly one terminal item: a chunk with `finish`, or an error
 * (thrown by the iterator within a process, an ERROR frame on the wire). Nothing follows the terminal item.
 */
import type { PrefillResult } from './kv-transfer.ts'
import type { LegStart } from './phase-event.ts'

export type FinishReason = 'stop' | 'eos' | 'length' | 'cancelled' | 'content_filter'

export interface TokenLogprob {
  readonly tokenId: number
  readonly logprob: number
}

/** Log-probabilities of one generated token: the chosen token and its alternatives, best first. */
export interface TokenLogprobs extends TokenLogprob {
  readonly top: readonly TokenLogprob[]
}

export interface PromptLogprobs {
  readonly from: number
  readonly tokens: readonly TokenLogprobs[]
}

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
  readonly totalTokens: number
  /** Prompt tokens that were not computed because their KV was cached. */
  readonly cachedTokens?: number
}

export interface Chunk {
  /** Only the new tokens; may be empty. */
  readonly tokenIds: readonly number[]
  /**
   * New text, from an engine that returns text instead of token ids; `tokenIds` is then empty. The number of tokens
   * is given by `usage`, for this chunk and all before it.
   */
  readonly text?: string
  /** One entry per token of this chunk, if requested. */
  readonly logprobs?: readonly TokenLogprobs[]
  /**
   * Log-probabilities of the prompt tokens starting at index `from` (token 0 has none), if requested: all of them in
   * one or several chunks before the first token. After a migration a part may be repeated with the same values.
   */
  readonly promptLogprobs?: PromptLogprobs
  /** Only on the terminal chunk. */
  readonly finish?: FinishReason
  /** The token id or text that ended the output, if one did. */
  readonly stopReason?: number | string
  readonly usage?: Usage
  readonly prefillResult?: PrefillResult
  readonly engineData?: unknown
  /** The complete reply to a request of kind `embed`; on the terminal chunk. */
  readonly embedding?: Float32Array
  /**
   * Times measured by the worker before its first token; on one chunk per leg. The router turns them into phase
   * events.
   */
  readonly started?: LegStart
}

const MAX_U32 = 0xffffffff

/** Builds a usage record; the total saturates at 2^32 − 1. */
export function usageOf(
  promptTokens: number,
  completionTokens: number,
  cachedTokens?: number,
): Usage {
  const totalTokens = Math.min(promptTokens + completionTokens, MAX_U32)
  return cachedTokens === undefined
    ? { promptTokens, completionTokens, totalTokens }
    : { promptTokens, completionTokens, totalTokens, cachedTokens }
}

/** A chunk with one token and nothing else. */
export function tokenChunk(tokenId: number): Chunk {
  return { tokenIds: [tokenId] }
}

/** A chunk with text instead of token ids. */
export function textChunk(text: string): Chunk {
  return { tokenIds: [], text }
}

/** A terminal chunk. */
export function finishChunk(
  finish: FinishReason,
  rest: Omit<Chunk, 'finish' | 'tokenIds'> & { tokenIds?: readonly number[] } = {},
): Chunk {
  return { tokenIds: [], ...rest, finish }
}
