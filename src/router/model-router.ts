/**
 * The router of one model, put together: two pools, the worker routers over them, the prefill router on top.
 *
 * A worker's card says its mode: `agg` and `decode` belong to the decode pool, `prefill` to the prefill pool.
 */
import type { Clock, Random } from '../base/index.ts'
import type { RequestPlane, RequestService } from '../request/index.ts'
import type { BusyThresholds } from './busy-threshold.ts'
import type { DecisionRecord } from './decision-record.ts'
import type { FleetObserver } from './fleet-observer.ts'
import type { RouterOptions } from './router-config.ts'
import type { RouterStatus } from './router-status.ts'

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
