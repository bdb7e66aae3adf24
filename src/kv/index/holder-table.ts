/**
 * Assigns small integers to holders (worker, data-parallel rank): the index of every per-holder array.
 *
 * A released number is reused, lowest first, so that arrays stay as long as the fleet is large.
 */
import { assert } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'

interface Holder {
  readonly workerId: WorkerId
  readonly dpRank: number
}

export class HolderTable {
  #holders: (Holder | undefined)[] = []
  readonly #byWorker = new Map<WorkerId, Map<number, number>>()
  #free: number[] = []

  /** One more than the largest number that was ever in use. */
  get size(): number {
    return this.#holders.length
  }

  /** The number of a holder; assigns one if it has none. */
  intern(workerId: WorkerId, dpRank: number): number {
    let ranks = this.#byWorker.get(workerId)
    if (ranks === undefined) {
      ranks = new Map()
      this.#byWorker.set(workerId, ranks)
    }
    const known = ranks.get(dpRank)
    if (known !== undefined) return known
    const holder = this.#free.pop() ?? this.#holders.length
    this.#holders[holder] = { workerId, dpRank }
    ranks.set(dpRank, holder)
    return holder
  }

  /** The number of a holder, or -1. */
  numberOf(workerId: WorkerId, dpRank: number): number {
    return this.#byWorker.get(workerId)?.get(dpRank) ?? -1
  }

  workerOf(holder: number): WorkerId | undefined {
    return this.#holders[holder]?.workerId
  }

  rankOf(holder: number): number | undefined {
    return this.#holders[holder]?.dpRank
  }

  /** All holders of a worker, by rank. */
  ofWorker(workerId: WorkerId): number[] {
    const ranks = [...(this.#byWorker.get(workerId) ?? [])]
    return ranks.sort((a, b) => a[0] - b[0]).map(([, holder]) => holder)
  }

  /** Call after every index and load table has removed the holder. */
  release(holder: number): void {
    const known = this.#holders[holder]
    assert(known !== undefined, `holder ${holder} is not in use`)
    this.#holders[holder] = undefined
    const ranks = this.#byWorker.get(known.workerId)
    ranks?.delete(known.dpRank)
    if (ranks?.size === 0) this.#byWorker.delete(known.workerId)
    this.#free.push(holder)
    this.#free.sort((a, b) => b - a)
  }
}
