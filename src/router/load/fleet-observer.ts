/** What the router is told about the fleet, by discovery and by the workers' own connections. */
import type { WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type { WorkerCard } from '../../request/index.ts'

export interface FleetObserver {
  /** Also called when the card of a known worker has changed. */
  workerJoined(card: WorkerCard): void
  workerLeft(workerId: WorkerId, reason: string): void
  /**
   * In order and without gaps: the caller requests a snapshot from the worker (a batch that begins with `cleared`)
   * when events were missed, and when a worker joins again.
   */
  kvEvents(workerId: WorkerId, batch: KvEventBatch): void
  /**
   * Whether events of the rank were rejected and a snapshot should be requested. Called after each batch; returns
   * true only once per need.
   */
  wantsKvSnapshot?(workerId: WorkerId, dpRank: number): boolean
  load(workerId: WorkerId, report: LoadReport): void
  /** The worker was told to clear its KV cache: estimated cache contents are removed. */
  cacheCleared?(workerId: WorkerId): void
}
