/**
 * What a frontend learns of its fleet, for logs and metrics: who joins, leaves, is refused or cannot be reached.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'
import type { ModelDifference, WorkerCard } from '../../request/index.ts'

export type FleetNews = { readonly model: string } & (
  | {
      readonly kind: 'workerJoined'
      readonly card: WorkerCard
      /** False: its card has changed. */
      readonly isNew: boolean
    }
  | {
      readonly kind: 'workerLeft'
      readonly workerId: WorkerId
      /** As discovery has it: `closed` (in order), `expired`, `process-died`. */
      readonly reason: string
    }
  | {
      /** It differs from what is served under its model's name and gets no requests. */
      readonly kind: 'workerRefused'
      readonly card: WorkerCard
      readonly differences: readonly ModelDifference[]
    }
  /** An authenticated connection stands. */
  | { readonly kind: 'workerConnected'; readonly workerId: WorkerId }
  | {
      /** Told once per reason, not per attempt. */
      readonly kind: 'workerUnreachable'
      readonly workerId: WorkerId
      readonly fault: BatonError
    }
  /** Its last worker left some time ago; its name is unknown from now on. */
  | { readonly kind: 'modelForgotten' }
)

export type FleetNewsObserver = (news: FleetNews) => void
