/**
 * What is known about one call while it runs, and the only place that informs the observer about it; the end
 * exactly once.
 */
import { loggedMessage } from '../../base/index.ts'
import type { BatonError, Clock } from '../../base/index.ts'
import type { GenerationOptions } from '../../api/index.ts'
import type { Caller } from '../access/caller.ts'
import type { KeyHold } from '../access/key-hold.ts'
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

/** What all records of a frontend share. */
export interface CallOwner {
  readonly clock: Clock
  readonly observer: FrontendObserver
  /** Makes a call's own `traceparent`; absent: tracing is off. */
  readonly beginTrace?: BeginTrace | undefined
  /** Called once, before the end is reported. */
  callEnded(record: CallRecord): void
}

interface CallRecordOptions {
  readonly endpoint: Endpoint
  readonly requestId: string
  /** The `traceparent` that the client sent. */
  readonly parent: string | undefined
  readonly caller: Caller
  /** Null: the call has no key. */
  readonly hold: KeyHold | null
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
  readonly #owner: CallOwner
  readonly #hold: KeyHold | null
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

  constructor(owner: CallOwner, options: CallRecordOptions) {
    const { endpoint, requestId, parent, caller, hold } = options
    const { clock, beginTrace } = owner
    this.#owner = owner
    this.#hold = hold
    this.requestId = requestId
    this.caller = caller
    this.receivedMs = clock.nowMs()
    this.receivedEpochMs = Math.floor(clock.epochMs())
    const traceparent = beginTrace?.(parent) ?? parent
    this.traceparent = traceparent
    const facts = { requestId, model: '', endpoint, streamed: false, traceparent }
    const hasParent = beginTrace !== undefined && parent !== undefined
    this.#facts = hasParent ? { ...facts, parentTraceparent: parent } : facts
  }

  /** The reply, while it can be ended from outside. */
  reply: { cutOff(error: BatonError): void } | null = null

  /** Reports an event of this call. Nothing is reported after the end. */
  tell(event: FrontendEvent): void {
    if (event.kind === 'prefillQueued') this.#goals ??= event.goals
    if (!this.#ended) this.#owner.observer(event, this.#facts)
  }

  /** Reports a background failure, possibly after the end of the call. */
  tellOfBackground(event: BackgroundFailed): void {
    this.#owner.observer(event, this.#facts)
  }

  /** The request was parsed and its model is known. */
  started(
    model: string,
    call: Pick<GenerationOptions, 'stream' | 'nvext'>,
    routing: RoutingHints,
  ): void {
    this.#facts = { ...this.#facts, model, streamed: call.stream }
    this.#routing = routing
    this.#said = call.nvext
    this.#tellReceived()
  }

  preprocessed(promptTokens: number): void {
    if (this.#preprocessedMs !== null) return
    const atMs = this.#owner.clock.nowMs()
    this.#preprocessedMs = atMs
    this.tell({ kind: 'tokenised', elapsedMs: atMs - this.receivedMs, promptTokens, atMs })
  }

  /**
   * Called once, when the prompt is known and nothing runs yet. `outputTokens`: the most that the client requests,
   * over all choices. Throws `request.rate_limited`.
   */
  reserve(promptTokens: number, outputTokens: () => number | undefined, choices = 1): void {
    if (this.caller.key?.tokensPerMinute === undefined) return
    this.#hold?.reserve(promptTokens + (outputTokens() ?? OUTPUT_TOKENS_USUAL * choices))
  }

  firstToken(): void {
    if (this.#firstTokenMs !== null) return
    const atMs = this.#owner.clock.nowMs()
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
    this.#owner.callEnded(this)
    this.#hold?.end(end.usage?.totalTokens ?? 0)
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
    const atMs = this.#owner.clock.nowMs()
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
}

function outcomeOf(error: BatonError | null): RequestEnd['outcome'] {
  if (error === null) return 'success'
  return error.code === 'request.cancelled' ? 'cancelled' : 'error'
}
