/**
 * Events about the fleet for logs and metrics: workers that join, leave, are refused or cannot be reached.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'
import type { ModelDifference, WorkerCard } from '../../request/index.ts'

export type FleetNews = { readonly model: string } & (
  | {
      readonly kind: 'workerJoined'
      readonly card: WorkerCard
      /** False: a known worker's card has changed. */
      readonly isNew: boolean
    }
  | {
      readonly kind: 'workerLeft'
      readonly workerId: WorkerId
      /** As discovery reports it: `closed` (in order), `expired`, `process-died`. */
      readonly reason: string
    }
  | {
      /** It differs from the other workers of its model and gets no requests. */
      readonly kind: 'workerRefused'
      readonly card: WorkerCard
      readonly differences: readonly ModelDifference[]
    }
  /** An authenticated connection exists. */
  | { readonly kind: 'workerConnected'; readonly workerId: WorkerId }
  | {
      /** Reported once per reason, not per attempt. */
      readonly kind: 'workerUnreachable'
      readonly workerId: WorkerId
      readonly fault: BatonError
    }
  | {
      /** An alias or adapter of the model that another model has, too: requests with it go to the other one. */
      readonly kind: 'nameTaken'
      readonly name: string
      readonly owner: string
    }
  /** Its last worker left some time ago; the name is unknown from now on. */
  | { readonly kind: 'modelForgotten' }
)

export type FleetNewsObserver = (news: FleetNews) => void
