/**
 * What is known about one call while it runs, and the only place that informs the observer about it; the end
 * exactly once.
 */
import { loggedMessage } from '../../base/index.ts'
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

/** Returns the `traceparent` of a call whose client sent `parent`. */
export type BeginTrace = (parent: string | undefined) => string

interface CallRecordOptions {
  readonly clock: Clock
  readonly observer: FrontendObserver
  readonly endpoint: Endpoint
  readonly requestId: string
  /** The `traceparent` that the client sent. */
  readonly parent: string | undefined
  /** Makes the call's own `traceparent`; absent: tracing is off. */
  readonly beginTrace?: BeginTrace | undefined
  readonly caller: Caller
  /** Throws `request.rate_limited` when the key does not have that many tokens left. */
  readonly onReserve: (tokensMost: number) => void
  readonly onEnded: (usage: Usage | null) => void
}

/** Reserved for an answer without a limit by the client; tokens above it are charged when they are used. */
const OUTPUT_TOKENS_USUAL = 1_024

export class CallRecord {
  readonly receivedMs: number
  readonly receivedEpochMs: number
  readonly requestId: string
  readonly caller: Caller
  /** The `traceparent` for workers and engines: the call's own span, or the client's when tracing is off. */
  readonly traceparent: string | undefined
  readonly #options: CallRecordOptions
  #facts: RequestFacts
  #routing: RoutingHints = {}
  /** As completed by the router from the request's class, which may depend on the prompt's length. */
  #goals: LatencyGoals | undefined
  /** Facts that the client sent about the request, reported with its end. */
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

  /** Ends the reply from outside; set while there is a reply that can be ended. */
  onCutOff: ((error: BatonError) => void) | null = null

  /**
   * Reports an event of this call; passed to everything that reports phases. Nothing is reported after the end.
   */
  readonly tell = (event: FrontendEvent): void => {
    if (event.kind === 'prefillQueued') this.#goals ??= event.goals
    if (!this.#ended) this.#options.observer(event, this.#facts)
  }

  /** Reports a background failure, possibly after the end of the call. */
  readonly tellOfBackground = (event: BackgroundFailed): void => {
    this.#options.observer(event, this.#facts)
  }

  /** The request was parsed and its model is known. */
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

  /**
   * Called once, when the prompt is known and nothing runs yet. `outputTokens`: the most that the client requests,
   * over all choices. Throws `request.rate_limited`.
   */
  reserve(promptTokens: number, outputTokens: () => number | undefined, choices = 1): void {
    if (this.caller.key?.tokensPerMinute === undefined) return
    this.#options.onReserve(promptTokens + (outputTokens() ?? OUTPUT_TOKENS_USUAL * choices))
  }

  firstToken(): void {
    if (this.#firstTokenMs !== null) return
    const atMs = this.#options.clock.nowMs()
    this.#firstTokenMs = atMs
    this.tell({ kind: 'firstToken', elapsedMs: atMs - this.receivedMs, atMs })
  }

  /** `status`: as the client reads it; `choices`: number of parallel choices. */
  ended(end: {
    status: number
    error: BatonError | null
    usage: Usage | null
    choices: number
  }): void {
    if (this.#ended) return
    this.#options.onEnded(end.usage)
    // Every end has a start, also for a call that was refused before its model was known.
    if (!this.#started) this.#tellReceived()
    const stage = end.error?.data['stage']
    const goals = this.#goals ?? this.#routing.goals
    this.tell({
      kind: 'ended',
      outcome: outcomeOf(end.error),
      status: end.status,
      errorCode: end.error?.code,
      errorMessage: end.error === null ? undefined : loggedMessage(end.error),
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
