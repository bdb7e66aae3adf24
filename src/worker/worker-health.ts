/**
 * What a worker says when it is asked how it is.
 */
import type { AdminState } from './admin-drain.ts'
import type { WorkerState } from './worker-event.ts'

export interface WorkerHealth {
  /** The process is worth keeping. */
  readonly live: boolean
  /** Requests are welcome. */
  readonly ready: boolean
  readonly state: WorkerState
  readonly inFlight: number
  /** KV offers that no worker has pulled yet. */
  readonly openOffers: number
  readonly reason?: string
}

export interface WorkerStatus {
  readonly state: AdminState | 'starting'
  readonly inFlightRequests: number
  readonly isRegistered: boolean
  readonly lastError?: string
}
