/**
 * The events that a worker reports. The worker writes no logs and counts no metrics; room `host` derives both from
 * these.
 */
import type { ErrorValue } from '../base/index.ts'
import type { FinishReason, GenerateRequest, KvTransfer } from '../request/index.ts'
import type { KvReleaseReason } from '../wire/index.ts'
import type { ShutdownStage, StageReason } from './shutdown-budget.ts'

export type WorkerState = 'init' | 'starting' | 'running' | 'draining' | 'stopped' | 'start-failed'

/** Times on the worker's clock, in milliseconds. */
interface RequestTimes {
  readonly admittedMs: number
  /** Null: the request ended before it reached the engine, or without a token. */
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
      /** From admission to the engine's start, without KV transfer. */
      readonly queuedMs: number
      /** From the engine's start to the first token. */
      readonly computeMs: number
      /** Here and below: the W3C trace context of the request, as received. */
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
      /** The KV transfer before the request began. */
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
  /** No new requests until the engine is back; `away` alternates. */
  | { readonly kind: 'engine-away'; readonly away: boolean; readonly error?: ErrorValue }
  /**
   * Discovery cannot be told that the worker accepts requests, or does not any more. Once for each fault; it is told
   * again until that succeeds or the worker ends.
   */
  | { readonly kind: 'register-failed' | 'unregister-failed'; readonly error: ErrorValue }
  /** After one of these: discovery was told the newest state. */
  | { readonly kind: 'discovery-told'; readonly registered: boolean }
  /** A connection that failed to authenticate: wrong secret, certificate or version. */
  | { readonly kind: 'frontend-refused'; readonly error: ErrorValue }
  /** A frontend refuses this worker with the reason: it differs from the other workers of its model. */
  | { readonly kind: 'turned-away'; readonly error: ErrorValue }
  /** The worker's entry had disappeared from discovery and was restored, or cannot be renewed. */
  | { readonly kind: 'entry-restored'; readonly why: string }
  | { readonly kind: 'renewal-failed'; readonly error: ErrorValue }
  /** The files of the engine's model cannot be read here, so no frontend can compare its tokenizer with others. */
  | { readonly kind: 'model-unreadable'; readonly error: ErrorValue }
  | { readonly kind: 'engine-fault'; readonly error: ErrorValue }

export type WorkerObserver = (event: WorkerEvent) => void

/** The trace context for an event of a request. */
export function traceOf({ traceparent }: Pick<GenerateRequest, 'traceparent'>): {
  readonly traceparent?: string
} {
  return traceparent === undefined ? {} : { traceparent }
}
