/**
 * What the frontend reports while it serves. `host` makes metrics, logs and traces of it; the frontend prints nothing.
 */
import type { ErrorCode, WorkerId } from '../base/index.ts'
import type { Phase } from '../request/index.ts'

export type Endpoint =
  | 'chat_completions'
  | 'completions'
  | 'responses'
  | 'anthropic_messages'
  | 'embeddings'

export interface RequestFacts {
  readonly requestId: string
  readonly model: string
  readonly endpoint: Endpoint
  readonly streamed: boolean
}

export interface RequestEnd extends RequestFacts {
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
  /** What the client asked for (`nvext.router`), so that goodput can be counted. */
  readonly ttftTargetMs: number | undefined
  readonly itlTargetMs: number | undefined
  /** When the request was made, as the client of a replayed trace says. */
  readonly requestTimestampMs: number | undefined
  readonly sessionId: string | undefined
  readonly tenantId: string | undefined
  readonly traceparent: string | undefined
}

export interface Migration {
  readonly requestId: string
  readonly model: string
  readonly kind: 'new_request' | 'ongoing_request'
  readonly attempt: number
  readonly errorCode: ErrorCode
  readonly failedWorkerId?: WorkerId
  readonly resumedTokens: number
}

interface RoutedLeg {
  readonly requestId: string
  readonly model: string
  readonly phase: Phase
  readonly workerId: WorkerId
  readonly queuedMs: number
  readonly overlapBlocks: number
  readonly promptBlocks: number
}

/** Every `requestEnded` has had its `requestStarted`. */
export interface FrontendObserver {
  requestStarted?(facts: RequestFacts): void
  routed?(leg: RoutedLeg): void
  firstToken?(facts: RequestFacts, ttftMs: number): void
  migrated?(migration: Migration): void
  requestEnded?(end: RequestEnd): void
  /** A fault of ours: the client reads only that there was one. */
  faulted?(requestId: string, error: unknown): void
  /** Something that nobody waits for has failed, for example a speculative prefill. */
  backgroundFailed?(what: string, errorCode: ErrorCode, message: string): void
}
