/**
 * Routes requests to a prefill and a decode pool, or to one worker (aggregated), and records which and why.
 *
 * States: pending (there has never been a prefill worker) → active ↔ unavailable (all have left); `disabled` if
 * switched off. If not active, requests run aggregated; if disaggregation is enforced, they are refused.
 */
import { BatonError } from '../../base/index.ts'
import { goalsOfFirst } from '../../request/index.ts'
import type { Clock, Random } from '../../base/index.ts'
import type {
  GenerateRequest,
  ReplySink,
  RequestHandle,
  RequestService,
  RoutingHints,
} from '../../request/index.ts'
import { bypassRequest, considerBypass } from './conditional-bypass.ts'
import { DisaggregatedRequest } from './disaggregated-request.ts'
import type { DisaggregatedParts } from './disaggregated-request.ts'
import { decodeRequest, prefillRequest, withoutWorkers } from './leg-requests.ts'
import { pinRefusal } from './pin-check.ts'
import { prefillsWithoutPartner, unpairedOf } from './topology-pairs.ts'
import { goalsOfClass } from '../decide/goals-left.ts'
import { answerQuery, routedEventOf } from './query-only.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import { hasNoPair } from '../ranks/router-status.ts'
import type { DisaggregationStatus, PrefillState } from '../ranks/router-status.ts'
import type { Refusal, Selection } from '../decide/selection.ts'
import { mergeTopology } from '../configuration/topology.ts'
import type { WorkerRouter } from './worker-router.ts'

export interface PrefillRouterOptions {
  readonly prefill: WorkerRouter
  readonly decode: WorkerRouter
  readonly clock: Clock
  readonly random: Random
  readonly config: RouterConfig
}

const NO_HANDLE: RequestHandle = { cancel: () => undefined }

export class PrefillRouter implements RequestService {
  readonly #options: PrefillRouterOptions
  readonly #parts: DisaggregatedParts
  #wasActive = false
  #requests = 0
  #disaggregated = 0
  #retries = 0
  readonly #aggregatedBy = new Map<string, number>()
  /** Few reasons, for all of the requests: the texts are made once. */
  readonly #forwardedNotes = new Map<string, string>()

  constructor(options: PrefillRouterOptions) {
    this.#options = options
    this.#parts = {
      ...options,
      onFallback: (reason) => this.#countAggregated(reason),
      onRetry: () => {
        this.#retries++
      },
      onDisaggregated: () => {
        this.#disaggregated++
      },
    }
    const { router: decode } = options.decode
    options.prefill.router.transfers.onward = (nowMs) =>
      decode.transfers.best(
        decode.decodeModeCount,
        (worker) => decode.capacity.hasRoom(worker),
        nowMs,
      )
    options.prefill.router.capacity.onGrowth(() => {
      if (options.prefill.router.workerCount > 0) this.#wasActive = true
    })
  }

  get state(): PrefillState {
    const { config, prefill } = this.#options
    if (!config.disaggregation) return 'disabled'
    if (prefill.router.workerCount > 0) return 'active'
    return this.#wasActive ? 'unavailable' : 'pending'
  }

  /** False if a request sent now would be refused because there are no workers. */
  canServeRequests(): boolean {
    const { config, decode } = this.#options
    if (decode.router.workerCount === 0) return false
    if (this.#hasNoPair()) return false
    return !config.enforceDisaggregation || this.#whyNot() === null
  }

  /** Every request has two legs, and with the required topology no prefill worker has a partner. */
  #hasNoPair(): boolean {
    const { config } = this.#options
    if (config.topology?.enforcement !== 'required' || config.conditional.enabled) return false
    return hasNoPair(unpairedOf(this.#options))
  }

  /** The refusal that `send` would give because the queue is full, whatever the prompt; null if there is none yet. */
  refusalAtOnce(routing: RoutingHints): BatonError | null {
    const { prefill, decode, config } = this.#options
    if (routing.queryOnly === true) return null
    if (this.#whyNot() === null) {
      return config.conditional.enabled ? null : prefill.refusalAtOnce(routing)
    }
    return config.enforceDisaggregation ? null : decode.refusalAtOnce(routing)
  }

  send(given: GenerateRequest, sink: ReplySink): RequestHandle {
    const request = this.#withGoals(given)
    const refusal = this.#pinRefusal(request)
    if (refusal !== null) {
      sink.onError(refusal)
      return NO_HANDLE
    }
    if (request.routing.queryOnly === true) {
      this.#answerQuery(request, sink)
      return NO_HANDLE
    }
    if (request.kind === 'embed') return this.#embed(request, sink)
    this.#requests++
    const { decode } = this.#options
    const pinned = this.#whyOneWorker(request)
    if (pinned !== null) return this.#aggregate(request, sink, pinned)
    const reason = this.#whyNot()
    if (reason !== null) {
      if (!this.#options.config.enforceDisaggregation) {
        const why = request.forward === undefined ? reason : this.#forwardedFor(reason)
        return this.#aggregate(request, sink, why)
      }
      sink.onError(enforcedError(reason))
      return NO_HANDLE
    }
    const bypass = considerBypass(this.#options, request)
    if (bypass === null) return this.#disaggregate(request, sink, 'disaggregated')
    if (!bypass.bypass) {
      return this.#disaggregate(request, sink, `disaggregated: ${bypass.reason}`)
    }
    this.#countAggregated(`conditional (${bypass.decidedBy})`)
    const note = `aggregated: ${bypass.reason}`
    return decode.serve(bypassRequest(request, bypass), 'aggregated', sink, note)
  }

  status(): DisaggregationStatus {
    return {
      state: this.state,
      enforced: this.#options.config.enforceDisaggregation,
      requests: this.#requests,
      disaggregated: this.#disaggregated,
      aggregatedBy: Object.fromEntries(this.#aggregatedBy),
      prefillRetries: this.#retries,
      unpaired: unpairedOf(this.#options),
    }
  }

  /**
   * Adds the latency goals: the request's own or its class's, and the absolute deadline of the first token over both
   * legs.
   */
  #withGoals(request: GenerateRequest): GenerateRequest {
    const { config, clock, prefill, decode } = this.#options
    const { routing } = request
    const isApart = this.state === 'active'
    const { router } = isApart ? prefill : decode
    const phase = isApart ? 'prefill' : 'aggregated'
    // In a family, the uncached length on the pool that computes the prompt decides.
    const goals = goalsOfFirst(
      routing.goals,
      goalsOfClass(config.policyClasses, routing.policyClass, () =>
        router.uncachedTokens({ request, phase, queuedMs: 0 }),
      ),
    )
    if (goals === undefined) return request
    const { ttftMs } = goals
    const dueMs = ttftMs === undefined ? {} : { firstTokenByMs: clock.nowMs() + ttftMs }
    return { ...request, routing: { ...routing, goals: { ...goals, ...dueMs } } }
  }

  #pinRefusal(request: GenerateRequest): BatonError | null {
    const { prefill, decode, config } = this.#options
    const isEmbed = request.kind === 'embed'
    return pinRefusal(request.routing, {
      prefill: prefill.router,
      decode: decode.router,
      ranks: isEmbed && this.#embedsAtPrefill(request) ? prefill.router : decode.router,
      mode: config.mode,
      topology: config.topology,
      whyOneLeg: isEmbed
        ? 'an embedding runs on one worker'
        : (this.#whyOneLeg(request) ?? this.#whyNot()),
    })
  }

  /** The reason why no request can be disaggregated now, or null. */
  #whyNot(): string | null {
    const { decode } = this.#options
    switch (this.state) {
      case 'disabled':
        return 'disaggregation is off'
      case 'pending':
        return 'no prefill worker has registered yet'
      case 'unavailable':
        return 'all prefill workers have left'
      case 'active':
        return decode.router.decodeModeCount === 0 ? 'no decode worker is registered' : null
    }
  }

  /**
   * The reason why the client wants one worker for the whole request, or null. This is no fallback, so
   * `enforceDisaggregation` does not refuse it.
   */
  #whyOneWorker(request: GenerateRequest): string | null {
    const reason = this.#whyOneLeg(request)
    if (reason !== null) return reason
    const { backendWorkerId, prefillWorkerId, decodeWorkerId } = request.routing
    const isOne = backendWorkerId !== undefined
    return isOne && prefillWorkerId === undefined && decodeWorkerId === undefined
      ? 'pinned to one worker'
      : null
  }

  /** The reason why the request cannot be split into two legs, or null. */
  #whyOneLeg({ forward, output }: GenerateRequest): string | null {
    if (forward !== undefined && forward.prefillBody === undefined) return 'forwarded unchanged'
    // Prompt log-probabilities are produced by prefill, and a prefill leg does not return them.
    return output.promptLogprobs === undefined ? null : 'log-probabilities of the prompt'
  }

  #aggregate(request: GenerateRequest, sink: ReplySink, reason: string): RequestHandle {
    this.#countAggregated(reason)
    return this.#options.decode.serve(request, 'aggregated', sink, `aggregated: ${reason}`)
  }

  /** An embedding is a prefill without decode: it goes to the prefill pool, unless the client names another worker. */
  #embed(request: GenerateRequest, sink: ReplySink): RequestHandle {
    const { prefill, decode } = this.#options
    if (!this.#embedsAtPrefill(request)) {
      return decode.serve(request, 'aggregated', sink, 'embedding')
    }
    const { dpRank } = request.routing
    const routing =
      dpRank === undefined ? request.routing : { ...request.routing, prefillDpRank: dpRank }
    return prefill.serve({ ...request, routing }, 'prefill', sink, 'embedding')
  }

  #embedsAtPrefill({ routing }: GenerateRequest): boolean {
    const isPinned = routing.backendWorkerId !== undefined || routing.decodeWorkerId !== undefined
    return !isPinned && this.state === 'active'
  }

  /** Answers where both legs would run; nothing is booked and no engine is called. */
  #answerQuery(request: GenerateRequest, sink: ReplySink): void {
    const { prefill, decode, config, clock } = this.#options
    const reason = this.#whyOneWorker(request) ?? this.#whyNot()
    const selections: Selection[] = []
    try {
      if (reason === null) {
        const partners = withoutWorkers(request, prefillsWithoutPartner(this.#options, request))
        const first = must(prefill.peek(prefillRequest(partners), 'prefill'))
        const merged = mergeTopology(request.routing, first.card, config.topology)
        const routing = { prefillWorkerId: first.workerId, ...merged }
        const second = decodeRequest(request, { routing }, config.conditional.enabled)
        selections.push(first, must(decode.peek(second, 'decode')))
      } else if (config.enforceDisaggregation && reason !== 'pinned to one worker') {
        throw enforcedError(reason)
      } else selections.push(must(decode.peek(request, 'aggregated')))
    } catch (thrown) {
      sink.onError(BatonError.from(thrown))
      return
    }
    for (const selection of selections) {
      sink.onPhase?.(routedEventOf(selection, clock.nowMs()))
    }
    sink.onChunk(answerQuery(selections, request))
  }

  #disaggregate(request: GenerateRequest, sink: ReplySink, note: string): RequestHandle {
    // Checked before the prompt is computed, not after.
    const late = this.#decodeRefusal(request)
    if (late !== null) {
      sink.onError(late)
      return NO_HANDLE
    }
    const run = new DisaggregatedRequest(this.#parts, note, request, sink)
    run.start()
    return run
  }

  #decodeRefusal(request: GenerateRequest): BatonError | null {
    const { routing } = request
    if (routing.goals?.itlMs === undefined) return null
    const leg = decodeRequest(request, { routing }, false)
    return this.#options.decode.router.goals.lateRefusal(
      { request: leg, phase: 'decode', queuedMs: 0 },
      0,
    )
  }

  #forwardedFor(reason: string): string {
    const known = this.#forwardedNotes.get(reason)
    if (known !== undefined) return known
    const text = `forwarded unchanged, ${reason}`
    this.#forwardedNotes.set(reason, text)
    return text
  }

  #countAggregated(reason: string): void {
    this.#aggregatedBy.set(reason, (this.#aggregatedBy.get(reason) ?? 0) + 1)
  }
}

function enforcedError(reason: string): BatonError {
  return new BatonError(
    'backend.worker_unavailable',
    `disaggregated serving is enforced, but ${reason}`,
    { data: { stage: 'prefill', reason } },
  )
}

function must(answer: Selection | Refusal): Selection {
  if (answer.kind === 'refused') throw answer.error
  return answer
}
