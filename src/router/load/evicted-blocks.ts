/** EXPERIMENT: blocks that ranks have evicted, to learn how often they are asked for again. */
import type { KvEvent } from '../../kv/index.ts'

const PLACES = 1 << 17
const HALVE_AT = 2048

export class EvictedBlocks {
  #low = new Uint32Array(0)
  #high = new Uint32Array(0)
  #at = new Float64Array(0)
  evicted = 0
  #evictedSum = 0
  #missedSum = 0
  /** By slot: count of evictions at the last one. */
  readonly last: number[] = []
  capacity = 0

  get share(): number {
    return this.#evictedSum < 64 ? 0 : Math.min(this.#missedSum / this.#evictedSum, 1)
  }

  isFull(slot: number): boolean {
    return this.last[slot] !== undefined
  }

  apply(slot: number, events: readonly KvEvent[]): void {
    for (const event of events) {
      if (event.kind !== 'removed' || event.tier !== 'device') continue
      if (this.#low.length === 0) {
        this.#low = new Uint32Array(PLACES)
        this.#high = new Uint32Array(PLACES)
        this.#at = new Float64Array(PLACES)
      }
      const { hashes } = event
      for (let i = 0; i < hashes.length; i += 2) {
        const low = hashes[i]!
        const place = low & (PLACES - 1)
        this.#low[place] = low
        this.#high[place] = hashes[i + 1]!
        this.#at[place] = ++this.evicted
      }
      this.last[slot] = this.evicted
      this.#evictedSum += hashes.length / 2
      if (this.#evictedSum >= HALVE_AT) {
        this.#evictedSum /= 2
        this.#missedSum /= 2
      }
    }
  }

  /** Blocks from `from` on that were evicted no longer ago than one lifetime. */
  countFrom(sequence: Uint32Array, from: number): number {
    if (this.#low.length === 0) return 0
    let count = 0
    for (let at = 2 * from; at < sequence.length; at += 2) {
      const low = sequence[at]!
      const place = low & (PLACES - 1)
      if (this.#low[place] !== low || this.#high[place] !== sequence[at + 1]) break
      if (this.evicted - this.#at[place]! > this.capacity) break
      count++
    }
    return count
  }

  missed(blocks: number): void {
    this.#missedSum += blocks
  }
}
