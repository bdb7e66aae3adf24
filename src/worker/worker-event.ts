/**
 * What a worker reports while it lives. The worker decides and counts nothing for people: `host` turns these into
 * log lines and metrics.
 */
import type { ErrorValue } from '../base/index.ts'
import type { FinishReason, GenerateRequest, KvTransfer } from '../request/index.ts'
import type { KvReleaseReason } from '../wire/index.ts'
import type { ShutdownStage, StageReason } from './shutdown-budget.ts'

export type WorkerState = 'init' | 'starting' | 'running' | 'draining' | 'stopped' | 'start-failed'

/** On the worker's clock. */
export interface RequestTimes {
  readonly admittedMs: number
  /** Null: it ended before the engine was given it, or without a token. */
  readonly atEngineMs: number | null
  readonly firstTokenMs: number | null
  readonly endedMs: number
}

export type WorkerEvent =
  | { readonly kind: 'state'; readonly state: WorkerState }
  | {
      readonly kind: 'stage'
      readonly stage: ShutdownStage
      readonly reason: StageReason
      readonly elapsedMs: number
      readonly note?: string
    }
  | { readonly kind: 'request-refused'; readonly requestId: string; readonly error: ErrorValue }
  | {
      /** The first token of a request. */
      readonly kind: 'request-started'
      readonly requestId: string
      /** From admission to the engine's start, without a KV transfer. */
      readonly queuedMs: number
      /** From the engine's start to the first token. */
      readonly computeMs: number
      /** Here and below: of the trace that the request is part of, as it came. */
      readonly traceparent?: string
    }
  | {
      readonly kind: 'request-ended'
      readonly requestId: string
      readonly finish?: FinishReason
      readonly error?: ErrorValue
      readonly promptTokens: number
      readonly outputTokens: number
      readonly elapsedMs: number
      readonly traceparent?: string
      readonly times: RequestTimes
      /** The KV that it began with. */
      readonly transfer?: KvTransfer
    }
  | {
      readonly kind: 'engine-stalled'
      readonly inFlight: number
      readonly stalledMs: number
    }
  | { readonly kind: 'engine-abort-failed'; readonly requestId: string; readonly error: ErrorValue }
  | {
      readonly kind: 'kv-offered'
      readonly requestId: string
      readonly offerId: string
      readonly kvBytes: number
    }
  | {
      readonly kind: 'kv-released'
      readonly offerId: string
      readonly reason: KvReleaseReason
      readonly kvBytes: number
      readonly heldMs: number
      readonly traceparent?: string
    }
  | {
      readonly kind: 'kv-taken'
      readonly requestId: string
      readonly offerId: string
      readonly blocksPulled: number
      readonly blocksHeld: number
      readonly bytesPulled: number
      readonly elapsedMs: number
      readonly traceparent?: string
    }
  | {
      readonly kind: 'kv-recomputed'
      readonly requestId: string
      readonly offerId: string
      readonly error: ErrorValue
    }
  | { readonly kind: 'canary'; readonly healthy: boolean; readonly error?: ErrorValue }
  /** No new requests until it is back; told in turns. */
  | { readonly kind: 'engine-away'; readonly away: boolean; readonly error?: ErrorValue }
  | { readonly kind: 'unregister-failed'; readonly error: ErrorValue }
  /** A connection that never became an authenticated one: wrong secret, certificate or version. */
  | { readonly kind: 'frontend-refused'; readonly error: ErrorValue }
  /** A frontend sends nothing here and says why: the worker differs from the others of its model. */
  | { readonly kind: 'turned-away'; readonly error: ErrorValue }
  /** The worker's entry was gone from discovery and has been made again, or cannot be renewed. */
  | { readonly kind: 'entry-restored'; readonly why: string }
  | { readonly kind: 'renewal-failed'; readonly error: ErrorValue }
  | { readonly kind: 'engine-fault'; readonly error: ErrorValue }

export type WorkerObserver = (event: WorkerEvent) => void

/** What an event of a request says of its trace. */
export function traceOf({ traceparent }: Pick<GenerateRequest, 'traceparent'>): {
  readonly traceparent?: string
} {
  return traceparent === undefined ? {} : { traceparent }
}
