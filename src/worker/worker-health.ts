/** The health of a worker. */
import type { AdminState } from './admin-drain.ts'
import type { WorkerState } from './worker-event.ts'

export interface WorkerHealth {
  /** The process should be kept (liveness). */
  readonly live: boolean
  /** The worker takes requests (readiness). */
  readonly ready: boolean
  readonly state: WorkerState
  readonly inFlight: number
  /** KV offers that have not been pulled yet. */
  readonly openOffers: number
  readonly reason?: string
}

export interface WorkerStatus {
  readonly state: AdminState | 'starting'
  readonly inFlightRequests: number
  readonly isRegistered: boolean
  readonly lastError?: string
}
