/**
 * What a worker's stream consists of.
 *
 * Order: any number of chunks without `finish`, then exactly one terminal item: a chunk with `finish`, or an error
 * (thrown by the iterator in a process, an ERROR frame on the wire). Nothing follows a terminal item.
 */
import type { PrefillResult } from './kv-transfer.ts'
import type { LegStart } from './phase-event.ts'

export type FinishReason = 'stop' | 'eos' | 'length' | 'cancelled' | 'content_filter'

export interface TokenLogprob {
  readonly tokenId: number
  readonly logprob: number
}

/** Of one generated token: the chosen one and its rivals, best first. */
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
  /** Prompt tokens that were not computed because their KV was already there. */
  readonly cachedTokens?: number
}

export interface Chunk {
  /** New tokens only; may be empty. */
  readonly tokenIds: readonly number[]
  /**
   * New text, from an engine that answers text instead of ids; `tokenIds` is empty then. How many tokens it stands for
   * is what `usage` says: of this chunk and all before it.
   */
  readonly text?: string
  /** One entry per token of this chunk, when asked for. */
  readonly logprobs?: readonly TokenLogprobs[]
  /**
   * Of the prompt's tokens from `from` on (0 has none), when asked for: all of them in one or several chunks, before the first
   * token. A piece may come again after a migration, and says the same.
   */
  readonly promptLogprobs?: PromptLogprobs
  /** Set on the terminal chunk only. */
  readonly finish?: FinishReason
  /** The token id or text that ended the output, when one did. */
  readonly stopReason?: number | string
  readonly usage?: Usage
  readonly prefillResult?: PrefillResult
  readonly engineData?: unknown
  /** The whole answer to a request of kind `embed`; on the terminal chunk. */
  readonly embedding?: Float32Array
  /** What the worker measured before its first token; on one chunk of a leg. The router makes phase events of it. */
  readonly started?: LegStart
}

const MAX_U32 = 0xffffffff

/** Usage whose total saturates at 2^32 − 1. */
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

/** A chunk that carries one token and nothing else. */
export function tokenChunk(tokenId: number): Chunk {
  return { tokenIds: [tokenId] }
}

/** A chunk that carries text instead of ids. */
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
