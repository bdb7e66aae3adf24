/**
 * What a request plane tells the rest of the frontend besides replies; all optional, all plain calls.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'

export interface FleetReports {
  /** Without gaps: after something was missed, a batch that begins with `cleared` tells the whole truth again. */
  readonly onKvEvents?: (workerId: WorkerId, batch: KvEventBatch) => void
  readonly onLoad?: (workerId: WorkerId, report: LoadReport) => void
  readonly onConnected?: (workerId: WorkerId) => void
  readonly onDisconnected?: (workerId: WorkerId, reason: BatonError) => void
  readonly onDraining?: (workerId: WorkerId) => void
  /** A sink has thrown: a fault of ours, to be logged. */
  readonly onFault?: (error: unknown) => void
}
