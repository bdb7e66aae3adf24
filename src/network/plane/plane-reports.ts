/**
 * What a request plane tells the rest of the frontend besides replies; all optional, all plain calls.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'

export interface FleetReports {
  /** Without gaps: after something was missed, a batch that begins with `cleared` carries the full state again. */
  readonly onKvEvents?: (workerId: WorkerId, batch: KvEventBatch) => void
  /** Asked after each batch of KV events: whether the worker is to be asked for a snapshot, because some were refused. */
  readonly wantsKvSnapshot?: (workerId: WorkerId, dpRank: number) => boolean
  readonly onLoad?: (workerId: WorkerId, report: LoadReport) => void
  readonly onConnected?: (workerId: WorkerId) => void
  /** What the worker holds and runs has been told since it was connected; once for each connection. */
  readonly onCaughtUp?: (workerId: WorkerId) => void
  /** The connection is lost; told also when the worker has left or has been turned away. */
  readonly onDisconnected?: (workerId: WorkerId, reason: BatonError) => void
  /** An attempt to connect has failed; another one follows. */
  readonly onConnectFailed?: (workerId: WorkerId, reason: BatonError) => void
  /** What another frontend says, handed on by a worker, unread; and which of them it came through. */
  readonly onPeer?: (payload: Uint8Array) => void
  readonly onDraining?: (workerId: WorkerId) => void
  /** A sink has thrown: an internal error, to be logged. */
  readonly onFault?: (error: unknown) => void
}
