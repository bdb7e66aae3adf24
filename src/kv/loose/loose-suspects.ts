/**
 * Which blocks of a store are loose. For a short event the rows of all its blocks are prefetched together, and most
 * blocks are excluded without a look-up.
 */
import type { LooseBlocks } from './loose-blocks.ts'
import { AHEAD_MAX } from './loose-table.ts'

export class LooseSuspects {
  readonly #loose: LooseBlocks
  /** For a short event: one bit per block that may be loose. */
  #suspects = 0

  constructor(loose: LooseBlocks) {
    this.#loose = loose
  }

  /** Call for each event before `next`, and again when blocks have become loose. */
  look(hashes: Uint32Array): void {
    const count = hashes.length >> 1
    if (count < AHEAD_MAX) this.#suspects = this.#loose.suspects(hashes, 0, count)
  }

  /** Whether any block of an event is loose. */
  hasAny(hashes: Uint32Array): boolean {
    if (this.#loose.count === 0) return false
    this.look(hashes)
    return this.next(hashes, 0) < hashes.length >> 1
  }

  /** Index of the first hash from `i` on that is loose, or the number of hashes. */
  next(hashes: Uint32Array, i: number): number {
    const count = hashes.length >> 1
    if (this.#loose.count === 0) return count
    if (count < AHEAD_MAX) return this.#nextSuspect(hashes, i)
    for (; i < count; i++) {
      const low = (hashes[2 * i] as number) | 0
      const high = (hashes[2 * i + 1] as number) | 0
      if (this.#loose.mayHave(low, high) && this.#loose.lookup(low, high)) break
    }
    return i
  }

  #nextSuspect(hashes: Uint32Array, i: number): number {
    const count = hashes.length >> 1
    for (let left = (this.#suspects >>> i) << i; i < count && left !== 0; left &= left - 1) {
      const at = 31 - Math.clz32(left & -left)
      const low = (hashes[2 * at] as number) | 0
      if (this.#loose.lookup(low, (hashes[2 * at + 1] as number) | 0)) return at
    }
    return count
  }
}
