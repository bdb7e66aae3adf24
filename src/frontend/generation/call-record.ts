/**
 * What is known of one call while it runs, and the one place that tells the observer of it; its end exactly once.
 */
import type { BatonError, Clock } from '../../base/index.ts'
import type { GenerationOptions } from '../../api/index.ts'
import type { Caller } from '../access/caller.ts'
import type { LatencyGoals, RoutingHints, Usage } from '../../request/index.ts'
import type {
  BackgroundFailed,
  Endpoint,
  FrontendEvent,
  FrontendObserver,
  RequestEnd,
  RequestFacts,
} from './frontend-event.ts'

/** The `traceparent` of a call whose client sent this one. */
export type BeginTrace = (parent: string | undefined) => string

interface CallRecordOptions {
  readonly clock: Clock
  readonly observer: FrontendObserver
  readonly endpoint: Endpoint
  readonly requestId: string
  /** What the client sent. */
  readonly parent: string | undefined
  /** Makes the call's own `traceparent`; absent: no traces are made. */
  readonly beginTrace?: BeginTrace | undefined
  readonly caller: Caller
  readonly onEnded: (usage: Usage | null) => void
}

export class CallRecord {
  readonly receivedMs: number
  readonly receivedEpochMs: number
  readonly requestId: string
  readonly caller: Caller
  /** For whoever works on the request: the call's own span, or the client's when none is made. */
  readonly traceparent: string | undefined
  readonly #options: CallRecordOptions
  #facts: RequestFacts
  #routing: RoutingHints = {}
  /** As the router has completed them by the request's class, which the length of the prompt may decide. */
  #goals: LatencyGoals | undefined
  /** What the client said of the request, to be reported with its end. */
  #said: GenerationOptions['nvext'] = {}
  #preprocessedMs: number | null = null
  #firstTokenMs: number | null = null
  #started = false
  #ended = false

  constructor(options: CallRecordOptions) {
    const { clock, requestId } = options
    this.#options = options
    this.requestId = requestId
    this.caller = options.caller
    this.receivedMs = clock.nowMs()
    this.receivedEpochMs = Math.floor(clock.epochMs())
    this.traceparent = options.beginTrace?.(options.parent) ?? options.parent
    this.#facts = this.#factsOf('', false)
  }

  /** Ends the reply from outside; set while there is one that can be ended so. */
  onCutOff: ((error: BatonError) => void) | null = null

  /** An event of this call: hand it to whatever tells phases. Nothing is reported after the end. */
  readonly tell = (event: FrontendEvent): void => {
    if (event.kind === 'prefillQueued') this.#goals ??= event.goals
    if (!this.#ended) this.#options.observer(event, this.#facts)
  }

  /** What goes on in the background may fail when the call is long over. */
  readonly tellOfBackground = (event: BackgroundFailed): void => {
    this.#options.observer(event, this.#facts)
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
    this.#tellReceived()
  }

  preprocessed(promptTokens: number): void {
    if (this.#preprocessedMs !== null) return
    const atMs = this.#options.clock.nowMs()
    this.#preprocessedMs = atMs
    this.tell({ kind: 'tokenised', elapsedMs: atMs - this.receivedMs, promptTokens, atMs })
  }

  firstToken(): void {
    if (this.#firstTokenMs !== null) return
    const atMs = this.#options.clock.nowMs()
    this.#firstTokenMs = atMs
    this.tell({ kind: 'firstToken', elapsedMs: atMs - this.receivedMs, atMs })
  }

  /** `status` is what the client reads; `choices` is how many ran beside each other. */
  ended(end: {
    status: number
    error: BatonError | null
    usage: Usage | null
    choices: number
  }): void {
    if (this.#ended) return
    this.#options.onEnded(end.usage)
    // Every end has a start, also of a call that was refused before its model was known.
    if (!this.#started) this.#tellReceived()
    const stage = end.error?.data['stage']
    const goals = this.#goals ?? this.#routing.goals
    this.tell({
      kind: 'ended',
      outcome: outcomeOf(end.error),
      status: end.status,
      errorCode: end.error?.code,
      errorMessage: end.error?.message,
      stage: typeof stage === 'string' ? stage : undefined,
      ...this.#timesOf(end.usage, end.choices),
      promptTokens: end.usage?.promptTokens ?? 0,
      completionTokens: end.usage?.completionTokens ?? 0,
      cachedTokens: end.usage?.cachedTokens,
      ttftTargetMs: goals?.ttftMs,
      itlTargetMs: goals?.itlMs,
      requestTimestampMs: this.#said.request_timestamp_ms,
      sessionId: this.#routing.sessionId,
      tenantId: this.#routing.tenantId,
    })
    this.#ended = true
  }

  #tellReceived(): void {
    this.#started = true
    this.tell({ kind: 'received', atMs: this.receivedMs })
  }

  #timesOf(
    usage: Usage | null,
    choices: number,
  ): Pick<RequestEnd, 'durationMs' | 'preprocessMs' | 'ttftMs' | 'itlMs' | 'atMs'> {
    const atMs = this.#options.clock.nowMs()
    const first = this.#firstTokenMs
    const tokensPerChoice = (usage?.completionTokens ?? 0) / Math.max(choices, 1)
    const hasItl = first !== null && tokensPerChoice > 1
    return {
      atMs,
      durationMs: atMs - this.receivedMs,
      preprocessMs: (this.#preprocessedMs ?? atMs) - this.receivedMs,
      ttftMs: first === null ? undefined : first - this.receivedMs,
      itlMs: hasItl ? (atMs - first) / (tokensPerChoice - 1) : undefined,
    }
  }

  #factsOf(model: string, streamed: boolean): RequestFacts {
    const { endpoint, beginTrace, parent } = this.#options
    const { requestId, traceparent } = this
    const facts = { requestId, model, endpoint, streamed, traceparent }
    const hasParent = beginTrace !== undefined && parent !== undefined
    return hasParent ? { ...facts, parentTraceparent: parent } : facts
  }
}

function outcomeOf(error: BatonError | null): RequestEnd['outcome'] {
  if (error === null) return 'success'
  return error.code === 'request.cancelled' ? 'cancelled' : 'error'
}
