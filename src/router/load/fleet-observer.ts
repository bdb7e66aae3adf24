/**
 * What the fleet tells the router: from discovery and from the workers' own connections.
 */
import type { WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type { WorkerCard } from '../../request/index.ts'

export interface FleetObserver {
  /** Also called when the card of a known worker has changed. */
  workerJoined(card: WorkerCard): void
  workerLeft(workerId: WorkerId, reason: string): void
  /**
   * In order and without gaps: whoever hands them on asks the worker for a snapshot (a batch that begins with
   * `cleared`) when something was missed, and when a worker joins again.
   */
  kvEvents(workerId: WorkerId, batch: KvEventBatch): void
  /** Whether events of the rank were refused and a snapshot is to be asked for: asked after each batch, yes only once. */
  wantsKvSnapshot?(workerId: WorkerId, dpRank: number): boolean
  load(workerId: WorkerId, report: LoadReport): void
  /** It was told to forget its KV: what it is believed to hold, without its saying so, is not there. */
  cacheCleared?(workerId: WorkerId): void
}
