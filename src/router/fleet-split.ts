/**
 * Splits one fleet into two pools: news of a worker goes to the pool of its card's mode. A worker may change its
 * mode.
 */
import type { WorkerId } from '../base/index.ts'
import type { KvEventBatch, LoadReport } from '../kv/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { FleetObserver } from './load/fleet-observer.ts'

export class FleetSplit implements FleetObserver {
  readonly #prefill: FleetObserver
  readonly #decode: FleetObserver
  readonly #poolOf = new Map<WorkerId, FleetObserver>()

  constructor(prefill: FleetObserver, decode: FleetObserver) {
    this.#prefill = prefill
    this.#decode = decode
  }

  workerJoined(card: WorkerCard): void {
    const pool = card.mode === 'prefill' ? this.#prefill : this.#decode
    const before = this.#poolOf.get(card.workerId)
    if (before !== undefined && before !== pool)
      before.workerLeft(card.workerId, 'changed its mode')
    this.#poolOf.set(card.workerId, pool)
    pool.workerJoined(card)
  }

  workerLeft(workerId: WorkerId, reason: string): void {
    this.#poolOf.get(workerId)?.workerLeft(workerId, reason)
    this.#poolOf.delete(workerId)
  }

  kvEvents(workerId: WorkerId, batch: KvEventBatch): void {
    this.#poolOf.get(workerId)?.kvEvents(workerId, batch)
  }

  wantsKvSnapshot(workerId: WorkerId, dpRank: number): boolean {
    return this.#poolOf.get(workerId)?.wantsKvSnapshot?.(workerId, dpRank) ?? false
  }

  cacheCleared(workerId: WorkerId): void {
    this.#poolOf.get(workerId)?.cacheCleared?.(workerId)
  }

  load(workerId: WorkerId, report: LoadReport): void {
    this.#poolOf.get(workerId)?.load(workerId, report)
  }
}
