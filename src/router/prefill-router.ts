/**
 * Splits requests over a prefill and a decode pool, or lets them go aggregated, and says which and why.
 *
 * States: pending (never had a prefill worker) → active ↔ unavailable (all gone); `disabled` when switched off.
 * Not active means aggregated, unless disaggregation is enforced: then the request is refused.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, Random } from '../base/index.ts'
import type { GenerateRequest, ReplySink, RequestHandle, RequestService } from '../request/index.ts'
import { DisaggregatedRequest } from './disaggregated-request.ts'
import type { DisaggregatedParts } from './disaggregated-request.ts'
import type { RouterConfig } from './router-config.ts'
import type { DisaggregationStatus, PrefillState } from './router-status.ts'
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
    this.#requests++
    const { config, decode } = this.#options
    const reason = this.#whyNot() ?? this.#whyNotThis(request)
    if (reason === null) return this.#disaggregate(request, sink)
    if (config.enforceDisaggregation && reason !== 'pinned to one worker') {
      sink.onError(
        new BatonError(
          'backend.worker_unavailable',
          `disaggregated serving is enforced, but ${reason}`,
          { data: { stage: 'prefill', reason } },
        ),
      )
      return NO_HANDLE
    }
    this.#countAggregated(reason)
    return decode.serve(request, 'aggregated', sink, `aggregated: ${reason}`)
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

  #whyNotThis(request: GenerateRequest): string | null {
    const { backendWorkerId, prefillWorkerId, decodeWorkerId } = request.routing
    const isOne = backendWorkerId !== undefined
    return isOne && prefillWorkerId === undefined && decodeWorkerId === undefined
      ? 'pinned to one worker'
      : null
  }

  #disaggregate(request: GenerateRequest, sink: ReplySink): RequestHandle {
    const parts: DisaggregatedParts = {
      ...this.#options,
      note: 'disaggregated',
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
