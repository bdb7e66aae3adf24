/**
 * The life of a call as one stream of events: what the frontend does itself, and the phases that the layers below tell
 * (`PhaseEvent`). `host` makes metrics, log lines and traces of it; the frontend prints nothing.
 *
 *   received → tokenised → (phases of each leg) → firstToken → ended
 *
 * Every `ended` has had its `received`. `migrated`, `faulted` and `backgroundFailed` may come between, the last two also
 * outside of any call.
 */
import type { ErrorCode, WorkerId } from '../../base/index.ts'
import type { PhaseEvent } from '../../request/index.ts'

export type Endpoint =
  | 'chat_completions'
  | 'completions'
  | 'responses'
  | 'anthropic_messages'
  | 'embeddings'
  /** Token ids in and out. */
  | 'generate'
  | 'rerank'
  | 'score'
  /** Only forwarded. */
  | 'audio'
  | 'images'
  | 'classify'
  | 'pooling'
  | 'moderations'
  | 'tokens'
  /** Any other path; only its faults are reported. */
  | 'other'

/** Which call an event is about. */
export interface RequestFacts {
  readonly requestId: string
  /** Empty until the body has been understood. */
  readonly model: string
  readonly endpoint: Endpoint
  readonly streamed: boolean
  /** What workers and engines are told: the span of this call when traces are on, else what the client sent. */
  readonly traceparent: string | undefined
  /** The client's own span, when traces are on and it sent one. */
  readonly parentTraceparent?: string
}

/** The call has been understood, or is about to be refused. */
export interface Received {
  readonly kind: 'received'
  readonly atMs: number
}

/** Template and tokenizer are done: the request can be sent to a worker. */
export interface Tokenised {
  readonly kind: 'tokenised'
  readonly elapsedMs: number
  readonly promptTokens: number
  readonly atMs: number
}

export interface FirstToken {
  readonly kind: 'firstToken'
  /** Since the arrival. */
  readonly elapsedMs: number
  readonly atMs: number
}

export interface Migration {
  readonly kind: 'migrated'
  /** Before the first token, or in the middle of the output. */
  readonly request: 'new_request' | 'ongoing_request'
  readonly attempt: number
  readonly errorCode: ErrorCode
  readonly failedWorkerId?: WorkerId
  readonly resumedTokens: number
  readonly atMs: number
}

export interface RequestEnd {
  readonly kind: 'ended'
  readonly outcome: 'success' | 'error' | 'cancelled'
  /** The status that the client read; a stream that failed later keeps 200 here and has an `errorCode`. */
  readonly status: number
  readonly errorCode: ErrorCode | undefined
  /** The whole message; what the client reads is without paths. */
  readonly errorMessage: string | undefined
  /** Which part of the request's life failed. */
  readonly stage: string | undefined
  readonly durationMs: number
  /** From arrival to tokens that can be sent to a worker: template and tokenizer. */
  readonly preprocessMs: number
  readonly ttftMs: number | undefined
  /** Mean over the tokens after the first. */
  readonly itlMs: number | undefined
  readonly promptTokens: number
  readonly completionTokens: number
  readonly cachedTokens: number | undefined
  /** Its goals, whoever has set them, so that goodput can be counted. */
  readonly ttftTargetMs: number | undefined
  readonly itlTargetMs: number | undefined
  /** When the request was made, as the client of a replayed trace says. */
  readonly requestTimestampMs: number | undefined
  readonly sessionId: string | undefined
  readonly tenantId: string | undefined
  readonly atMs: number
}

/** An internal error: the client reads only that there was one. */
export interface Faulted {
  readonly kind: 'faulted'
  readonly error: unknown
}

/** A background task has failed, for example a speculative prefill. */
export interface BackgroundFailed {
  readonly kind: 'backgroundFailed'
  readonly what: string
  readonly errorCode: ErrorCode
  readonly message: string
}

export type FrontendEvent =
  | Received
  | Tokenised
  | PhaseEvent
  | FirstToken
  | Migration
  | RequestEnd
  | Faulted
  | BackgroundFailed

/** The event of one kind. */
export type FrontendEventOf<
  Kind extends FrontendEvent['kind'],
  Event = FrontendEvent,
> = Event extends { readonly kind: infer Kinds } ? (Kind extends Kinds ? Event : never) : never

/** Called for every event, several times per request and never per token. */
export type FrontendObserver = (event: FrontendEvent, request: RequestFacts) => void
