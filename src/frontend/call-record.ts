/**
 * What is known of one call while it runs, and the report of its end: told to the observer exactly once.
 */
import type { BatonError, Clock } from '../base/index.ts'
import type { GenerationOptions } from '../api/index.ts'
import type { RoutedEvent, RoutingHints } from '../request/index.ts'
import type { Usage } from '../request/index.ts'
import type { Endpoint, FrontendObserver, RequestFacts } from './frontend-observer.ts'

export class CallRecord {
  readonly receivedMs: number
  readonly receivedEpochMs: number
  readonly requestId: string
  readonly #clock: Clock
  readonly #observer: FrontendObserver
  readonly #endpoint: Endpoint
  readonly #onEnded: () => void
  #facts: RequestFacts
  #routing: RoutingHints = {}
  /** What the client said of the request, to be reported with its end. */
  #said: GenerationOptions['nvext'] = {}
  #traceparent: string | undefined
  #preprocessedMs: number | null = null
  #firstTokenMs: number | null = null
  #started = false
  #ended = false

  constructor(options: {
    clock: Clock
    observer: FrontendObserver
    endpoint: Endpoint
    requestId: string
    traceparent: string | undefined
    onEnded: () => void
  }) {
    this.#clock = options.clock
    this.#observer = options.observer
    this.#endpoint = options.endpoint
    this.#onEnded = options.onEnded
    this.#traceparent = options.traceparent
    this.requestId = options.requestId
    this.receivedMs = options.clock.nowMs()
    this.receivedEpochMs = Math.floor(options.clock.epochMs())
    this.#facts = this.#factsOf('', false)
  }

  /** The request has been understood and its model is known. */
  started(
    model: string,
    call: Pick<GenerationOptions, 'stream' | 'nvext'>,
    routing: RoutingHints,
  ): void {
    this.#facts = this.#factsOf(model, call.stream)
    this.#routing = routing
    this.#said = call.nvext
    this.#started = true
    this.#observer.requestStarted?.(this.#facts)
  }

  preprocessed(): void {
    this.#preprocessedMs ??= this.#clock.nowMs()
  }

  routed(event: RoutedEvent): void {
    const { phase, workerId, queuedMs, overlapBlocks, promptBlocks } = event
    this.#observer.routed?.({
      requestId: this.requestId,
      model: this.#facts.model,
      phase,
      workerId,
      queuedMs,
      overlapBlocks,
      promptBlocks,
    })
  }

  firstToken(): void {
    if (this.#firstTokenMs !== null) return
    this.#firstTokenMs = this.#clock.nowMs()
    this.#observer.firstToken?.(this.#facts, this.#firstTokenMs - this.receivedMs)
  }

  /** `status` is what the client reads; `choices` is how many ran beside each other. */
  ended(end: {
    status: number
    error: BatonError | null
    usage: Usage | null
    choices: number
  }): void {
    if (this.#ended) return
    this.#ended = true
    this.#onEnded()
    // Every end has a start, also of a call that was refused before its model was known.
    if (!this.#started) this.#observer.requestStarted?.(this.#facts)
    const now = this.#clock.nowMs()
    const { error, usage } = end
    const { requestId, model, endpoint, streamed } = this.#facts
    const first = this.#firstTokenMs
    const tokensPerChoice = (usage?.completionTokens ?? 0) / Math.max(end.choices, 1)
    const hasItl = first !== null && tokensPerChoice > 1
    const stage = error?.data['stage']
    this.#observer.requestEnded?.({
      requestId,
      model,
      endpoint,
      streamed,
      outcome: outcomeOf(error),
      status: end.status,
      errorCode: error?.code,
      errorMessage: error?.message,
      stage: typeof stage === 'string' ? stage : undefined,
      durationMs: now - this.receivedMs,
      preprocessMs: (this.#preprocessedMs ?? now) - this.receivedMs,
      ttftMs: first === null ? undefined : first - this.receivedMs,
      itlMs: hasItl ? (now - first) / (tokensPerChoice - 1) : undefined,
      promptTokens: usage?.promptTokens ?? 0,
      completionTokens: usage?.completionTokens ?? 0,
      cachedTokens: usage?.cachedTokens,
      ttftTargetMs: this.#said.router?.ttft_target,
      itlTargetMs: this.#said.router?.itl_target,
      requestTimestampMs: this.#said.request_timestamp_ms,
      sessionId: this.#routing.sessionId,
      tenantId: this.#routing.tenantId,
      traceparent: this.#traceparent,
    })
  }

  #factsOf(model: string, streamed: boolean): RequestFacts {
    return { requestId: this.requestId, model, endpoint: this.#endpoint, streamed }
  }
}

function outcomeOf(error: BatonError | null): 'success' | 'error' | 'cancelled' {
  if (error === null) return 'success'
  return error.code === 'request.cancelled' ? 'cancelled' : 'error'
}
