/**
 * Splits requests over a prefill and a decode pool, or lets them go aggregated, and says which and why.
 *
 * States: pending (never had a prefill worker) → active ↔ unavailable (all gone); `disabled` when switched off.
 * Not active means aggregated, unless disaggregation is enforced: then the request is refused.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, Random } from '../base/index.ts'
import type { GenerateRequest, ReplySink, RequestHandle, RequestService } from '../request/index.ts'
import { bypassRequest, considerBypass } from './conditional-bypass.ts'
import { DisaggregatedRequest } from './disaggregated-request.ts'
import type { DisaggregatedParts } from './disaggregated-request.ts'
import { decodeRequest, prefillRequest } from './leg-requests.ts'
import { answerQuery, routedEventOf } from './query-only.ts'
import type { RouterConfig } from './router-config.ts'
import type { DisaggregationStatus, PrefillState } from './router-status.ts'
import type { Refusal, Selection } from './selection.ts'
import { mergeTopology } from './topology.ts'
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
  #wasActive = false
  #requests = 0
  #disaggregated = 0
  #retries = 0
  readonly #aggregatedBy = new Map<string, number>()

  constructor(options: PrefillRouterOptions) {
    this.#options = options
    options.prefill.router.onRoom(() => {
      if (options.prefill.router.workerCount > 0) this.#wasActive = true
    })
  }

  get state(): PrefillState {
    const { config, prefill } = this.#options
    if (!config.disaggregation) return 'disabled'
    if (prefill.router.workerCount > 0) return 'active'
    return this.#wasActive ? 'unavailable' : 'pending'
  }

  /** A request sent now would not be refused for want of workers. */
  canServeRequests(): boolean {
    const { config, decode } = this.#options
    if (decode.router.workerCount === 0) return false
    return !config.enforceDisaggregation || this.#whyNot() === null
  }

  send(request: GenerateRequest, sink: ReplySink): RequestHandle {
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
        return this.#aggregate(request, sink, reason)
      }
      sink.onError(enforcedError(reason))
      return NO_HANDLE
    }
    const bypass = considerBypass(this.#options, request)
    if (bypass === null) return this.#disaggregate(request, sink, 'disaggregated')
    if (!bypass.bypass) {
      return this.#disaggregate(request, sink, `disaggregated: ${bypass.reason}`)
    }
    this.#countAggregated(`conditional (${this.#options.config.conditional.policy})`)
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
    }
  }

  /** Why no request can be disaggregated now, or null. */
  #whyNot(): string | null {
    const { decode } = this.#options
    switch (this.state) {
      case 'disabled':
        return 'disaggregation is off'
      case 'pending':
        return 'no prefill worker has come yet'
      case 'unavailable':
        return 'all prefill workers are gone'
      case 'active':
        return decode.router.decodeModeCount === 0 ? 'no decode worker is there' : null
    }
  }

  /** The client wants one worker for all of it. That is no fall-back, so `enforce` has nothing against it. */
  #whyOneWorker(request: GenerateRequest): string | null {
    const { backendWorkerId, prefillWorkerId, decodeWorkerId } = request.routing
    const isOne = backendWorkerId !== undefined
    return isOne && prefillWorkerId === undefined && decodeWorkerId === undefined
      ? 'pinned to one worker'
      : null
  }

  #aggregate(request: GenerateRequest, sink: ReplySink, reason: string): RequestHandle {
    this.#countAggregated(reason)
    return this.#options.decode.serve(request, 'aggregated', sink, `aggregated: ${reason}`)
  }

  /** All prompt and no decode: it belongs to the prefill workers, unless the client names another one. */
  #embed(request: GenerateRequest, sink: ReplySink): RequestHandle {
    const { prefill, decode } = this.#options
    const { backendWorkerId, decodeWorkerId } = request.routing
    const isPinned = backendWorkerId !== undefined || decodeWorkerId !== undefined
    if (isPinned || this.state !== 'active') {
      return decode.serve(request, 'aggregated', sink, 'embedding')
    }
    return prefill.serve(request, 'prefill', sink, 'embedding')
  }

  /** Where both legs would go; nothing is booked and no engine is called. */
  #answerQuery(request: GenerateRequest, sink: ReplySink): void {
    const { prefill, decode, config, clock } = this.#options
    const reason = this.#whyOneWorker(request) ?? this.#whyNot()
    const selections: Selection[] = []
    try {
      if (reason === null) {
        const first = must(prefill.peek(prefillRequest(request), 'prefill'))
        const routing = mergeTopology(request.routing, first.card, config.topology)
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
      sink.onRouted?.(routedEventOf(selection, clock.nowMs()))
    }
    sink.onChunk(answerQuery(selections, request))
  }

  #disaggregate(request: GenerateRequest, sink: ReplySink, note: string): RequestHandle {
    const parts: DisaggregatedParts = {
      ...this.#options,
      note,
      onFallback: (reason) => this.#countAggregated(reason),
      onRetry: () => {
        this.#retries++
      },
      onDisaggregated: () => {
        this.#disaggregated++
      },
    }
    const run = new DisaggregatedRequest(parts, request, sink)
    run.start()
    return run
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
