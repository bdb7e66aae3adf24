/**
 * The router of one model, put together: two pools, the worker routers over them, the prefill router on top.
 *
 * A worker's card says its mode: `agg` and `decode` belong to the decode pool, `prefill` to the prefill pool.
 */
import type { Clock, Random } from '../base/index.ts'
import type { RequestPlane, RequestService } from '../request/index.ts'
import type { BusyThresholds } from './busy-threshold.ts'
import { DecisionRing } from './decision-record.ts'
import type { DecisionRecord } from './decision-record.ts'
import { FleetSplit } from './fleet-split.ts'
import type { FleetObserver } from './fleet-observer.ts'
import { KvRouter } from './kv-router.ts'
import { PrefillRouter } from './prefill-router.ts'
import { PromptHasher } from './prompt-hasher.ts'
import { completeRouterConfig } from './router-config.ts'
import type { RouterOptions } from './router-config.ts'
import type { RouterStatus } from './router-status.ts'
import { selfCheck } from './self-check.ts'
import { WorkerRouter } from './worker-router.ts'

export interface ModelRouterOptions {
  readonly plane: RequestPlane
  readonly clock: Clock
  readonly random: Random
  readonly config?: RouterOptions
}

export interface ModelRouter {
  readonly service: RequestService
  readonly fleet: FleetObserver
  /** Some worker can answer; with `enforceDisaggregation` there must be a prefill worker as well. */
  canServeRequests(): boolean
  /** All decisions of one request, oldest first; null when it is not (or no longer) known. */
  explain(requestId: string): readonly DecisionRecord[] | null
  status(): RouterStatus
  busyThresholds(): BusyThresholds
  /** Overwrites only what is named; returns what holds now. */
  setBusyThresholds(update: BusyThresholds): BusyThresholds
  /** Ends what waits in the queues with `backend.worker_unavailable`; requests under way go on. */
  close(): void
}

export function createModelRouter(options: ModelRouterOptions): ModelRouter {
  const { plane, clock, random } = options
  const config = completeRouterConfig(options.config)
  const ring = new DecisionRing(config.explainRecords)
  const hasher = new PromptHasher()
  const createPool = (): WorkerRouter =>
    new WorkerRouter({
      router: new KvRouter({ config, clock, random, hasher, ring }),
      plane,
      clock,
    })
  const prefill = createPool()
  const decode = createPool()
  const service = new PrefillRouter({ prefill, decode, clock, random, config })
  return {
    service,
    fleet: new FleetSplit(prefill.router, decode.router),
    canServeRequests: () => service.canServeRequests(),
    explain: (requestId) => ring.get(requestId),
    status: () =>
      selfCheck({
        prefill: prefill.status(),
        decode: decode.status(),
        disaggregation: service.status(),
        sessions: prefill.sessionCount + decode.sessionCount,
      }),
    busyThresholds: () => decode.router.busy,
    setBusyThresholds: (update) => {
      prefill.router.setBusy(update)
      return decode.router.setBusy(update)
    },
    close: () => {
      prefill.close()
      decode.close()
    },
  }
}
