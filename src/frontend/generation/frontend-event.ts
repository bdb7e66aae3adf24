/**
 * The life of a call as a stream of events: the frontend's own steps, and the phases that lower layers report
 * (`PhaseEvent`). `host` makes metrics, log lines and traces of it; the frontend prints nothing.
 *
 * received → tokenised → (phases of each leg) → firstToken → ended
 *
 * Every `ended` has had its `received`. `migrated`, `faulted` and `backgroundFailed` may come in between, the
 * last two also outside of any call. `batchGivenUp` belongs to no call.
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
  /** Any other path; only its internal errors are reported. */
  | 'other'

/** The call that an event belongs to. */
export interface RequestFacts {
  readonly requestId: string
  /** Empty until the body is parsed. */
  readonly model: string
  readonly endpoint: Endpoint
  readonly streamed: boolean
  /**
   * The `traceparent` for workers and engines: the span of this call when tracing is on, otherwise the
   * client's.
   */
  readonly traceparent: string | undefined
  /** The client's own span, when tracing is on and it sent one. */
  readonly parentTraceparent?: string
}

/** The call was parsed, or is about to be refused. */
export interface Received {
  readonly kind: 'received'
  readonly atMs: number
}

/** The prompt is rendered and tokenised: the request can be sent to a worker. */
interface Tokenised {
  readonly kind: 'tokenised'
  readonly elapsedMs: number
  readonly promptTokens: number
  readonly atMs: number
}

interface FirstToken {
  readonly kind: 'firstToken'
  /** Milliseconds since the arrival. */
  readonly elapsedMs: number
  readonly atMs: number
}

export interface Migration {
  readonly kind: 'migrated'
  /** Before the first token, or in the middle of the output. */
  readonly request: 'new_request' | 'ongoing_request'
  readonly attempt: number
  readonly errorCode: ErrorCode
  /** Without text of the client. */
  readonly errorMessage?: string
  readonly failedWorkerId?: WorkerId
  readonly resumedTokens: number
  readonly atMs: number
}

export interface RequestEnd {
  readonly kind: 'ended'
  readonly outcome: 'success' | 'error' | 'cancelled'
  /** The status that the client read; a stream that failed later has 200 here and an `errorCode`. */
  readonly status: number
  readonly errorCode: ErrorCode | undefined
  /** The complete message; the client's version contains no paths. */
  readonly errorMessage: string | undefined
  /** The stage of the request that failed. */
  readonly stage: string | undefined
  readonly durationMs: number
  /** Milliseconds from arrival until the request can be sent to a worker: template and tokenizer. */
  readonly preprocessMs: number
  readonly ttftMs: number | undefined
  /** Mean over the tokens after the first, in milliseconds. */
  readonly itlMs: number | undefined
  readonly promptTokens: number
  readonly completionTokens: number
  readonly cachedTokens: number | undefined
  /** The effective goals from any source, in milliseconds, so that goodput can be counted. */
  readonly ttftTargetMs: number | undefined
  readonly itlTargetMs: number | undefined
  /** The request's time in a replayed trace, as its client reports it. */
  readonly requestTimestampMs: number | undefined
  readonly sessionId: string | undefined
  readonly tenantId: string | undefined
  readonly atMs: number
}

/** An internal error. The client reads only that there was one. */
interface Faulted {
  readonly kind: 'faulted'
  readonly error: unknown
}

/** A background task failed, for example a speculative prefill. */
export interface BackgroundFailed {
  readonly kind: 'backgroundFailed'
  readonly what: string
  readonly errorCode: ErrorCode
  readonly message: string
}

/** A batch that ran here is another frontend's now. */
interface BatchGivenUp {
  readonly kind: 'batchGivenUp'
  readonly batchId: string
  readonly why: string
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
  | BatchGivenUp

/** The event type of a kind. */
export type FrontendEventOf<
  Kind extends FrontendEvent['kind'],
  Event = FrontendEvent,
> = Event extends { readonly kind: infer Kinds } ? (Kind extends Kinds ? Event : never) : never

/** Called for every event: several times per request, never per token. */
export type FrontendObserver = (event: FrontendEvent, request: RequestFacts) => void
