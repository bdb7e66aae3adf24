/**
 * The messages between the engine's thread and its owner.
 *
 * Memory is passed by its address: the owner keeps it alive until the thread has reported `loaded`, `kept` or
 * `ended` for the run. Messages of one direction arrive in the order in which they were sent.
 */
import type { ErrorValue } from '../../base/index.ts'
import type {
  DisaggregationMode,
  FinishReason,
  Sampling,
  StopConditions,
  TokenLogprobs,
} from '../../request/index.ts'
import type { LlamaCppConfig } from '../model/llamacpp-options.ts'
import type { KvLayout } from '../state/state-layout.ts'

/** `workerData` of the thread. */
export interface ThreadSettings {
  readonly config: LlamaCppConfig
}

/** A request after all decisions that need anything outside the thread. */
export interface RunRequest {
  readonly id: number
  readonly tokenIds: Uint32Array
  readonly resumedTokens: number
  readonly maxTokens: number
  readonly mode: DisaggregationMode
  readonly sampling: Omit<Sampling, 'guided'>
  readonly seed: number
  readonly stop: StopConditions
  readonly eosTokenIds: readonly number[]
  /** Undefined: none. */
  readonly logprobs: number | undefined
  readonly promptLogprobs: number | undefined
  readonly gbnf: string | undefined
  /** The client's name for the grammar's field. */
  readonly gbnfField: string | undefined
  /** Cached blocks from the first token on. */
  readonly held: BlockMemory
  /** Blocks to copy from the slot when the prompt is computed, with the memory for them. */
  readonly wanted: BlockMemory
}

/** Blocks in memory, each of whole tokens in the layout of `state-codec.ts`. */
export interface BlockMemory {
  readonly addresses: BigUint64Array
  /** For each block: its first token and the number of its tokens. */
  readonly ranges: Uint32Array
}

export type ToThread =
  | { readonly kind: 'run'; readonly request: RunRequest }
  | { readonly kind: 'embed'; readonly id: number; readonly tokenIds: Uint32Array }
  | { readonly kind: 'cancel'; readonly id: number }
  | { readonly kind: 'close' }

export interface StartedMessage {
  readonly kind: 'started'
  readonly vocabSize: number
  readonly contextLength: number
  readonly probeToken: number
  /** Undefined: the KV of this model cannot be split into blocks. */
  readonly layout: KvLayout | undefined
  readonly batching: 'exact' | 'throughput'
  readonly decodesTogether: boolean
  readonly cpu: string
}

export interface RunEnd {
  readonly id: number
  readonly finish: FinishReason
  readonly tokenIds: readonly number[]
  readonly logprobs?: readonly TokenLogprobs[]
  readonly stopReason?: number
}

/** The results of one step; absent fields: none of that kind. In the order in which the owner handles them. */
export interface StepMessage {
  readonly kind: 'step'
  /** Pairs of run and computed prompt tokens. */
  progress?: number[]
  /** Pairs of run and the tokens loaded from cached blocks. */
  loaded?: number[]
  /**
   * Pairs of run and position: the requested blocks up to it are written, and the rest of the prompt is computed
   * next, which will not take long.
   */
  ahead?: number[]
  /** Runs whose requested blocks are written. */
  kept?: number[]
  /** For a run that requested them: for every prompt token but the first, in order. */
  promptLogprobs?: { readonly id: number; readonly logprobs: readonly TokenLogprobs[] }[]
  /** Pairs of run and token. */
  tokens?: number[]
  scored?: { readonly id: number; readonly token: number; readonly logprobs: TokenLogprobs }[]
  ends?: RunEnd[]
  failures?: { readonly id: number; readonly error: ErrorValue }[]
  embeddings?: { readonly id: number; readonly vector: Float32Array }[]
}

/** An array is a step with only tokens, as pairs of run and token; it costs half as much to send. */
export type FromThread =
  | readonly number[]
  | StartedMessage
  | { readonly kind: 'not-started'; readonly error: ErrorValue }
  | StepMessage
  | { readonly kind: 'closed' }
