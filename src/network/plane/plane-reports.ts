/**
 * What a request plane reports to the frontend besides replies. All are optional and called directly.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'

export interface FleetReports {
  /** Without gaps: after missed events, a batch that starts with `cleared` contains the full state again. */
  readonly onKvEvents?: (workerId: WorkerId, batch: KvEventBatch) => void
  /** Called after each batch of KV events; true asks the worker for a snapshot, because some events were refused. */
  readonly wantsKvSnapshot?: (workerId: WorkerId, dpRank: number) => boolean
  readonly onLoad?: (workerId: WorkerId, report: LoadReport) => void
  /** `clockOffsetMs`: by how much the worker's clock is at least ahead of the one here, or (negative) behind it. */
  readonly onConnected?: (workerId: WorkerId, clockOffsetMs: number) => void
  /** The worker's initial blocks and loads were received; once per connection. */
  readonly onCaughtUp?: (workerId: WorkerId) => void
  /** The connection was lost, or the worker has left or was refused. */
  readonly onDisconnected?: (workerId: WorkerId, reason: BatonError) => void
  /** An attempt to connect has failed; another one follows. */
  readonly onConnectFailed?: (workerId: WorkerId, reason: BatonError) => void
  /** A message of another frontend, relayed unread by this worker. */
  readonly onPeer?: (payload: Uint8Array) => void
  readonly onDraining?: (workerId: WorkerId) => void
  /** A sink threw: an internal error, to be logged. */
  readonly onFault?: (error: unknown) => void
}
