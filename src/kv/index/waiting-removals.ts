/**
 * Removals of a few blocks each that wait until they can be applied together.
 *
 * A removal waits for one or more reads of memory that nothing can prefetch, about 150 ns each in a large index. Reads
 * about many blocks overlap. Events of one message are applied together anyway; this holds removals that arrive one by
 * one. Owns their blocks in order of arrival; the index applies them before it does or answers anything else, so that
 * nobody can tell the difference.
 */
import { AHEAD_MAX } from '../runs/run-look-ahead.ts'

/** A longer removal is applied at once. */
const BLOCKS_EACH_MAX = 8

export class WaitingRemovals {
  readonly #holders = new Int32Array(AHEAD_MAX)
  /** The hashes of the blocks that wait, `count` of them. */
  readonly hashes = new Uint32Array(2 * AHEAD_MAX)
  #count = 0

  get count(): number {
    return this.#count
  }

  /** Adds a holder's removal; false if it is too long or there is no space. */
  add(holder: number, hashes: Uint32Array): boolean {
    const blocks = hashes.length >> 1
    if (blocks > BLOCKS_EACH_MAX || this.#count + blocks > AHEAD_MAX) return false
    for (let i = 0, k = 2 * this.#count; i < hashes.length; i++, k++) {
      this.hashes[k] = hashes[i] as number
    }
    this.#holders.fill(holder, this.#count, this.#count + blocks)
    this.#count += blocks
    return true
  }

  holderAt(i: number): number {
    return this.#holders[i] as number
  }

  /** Index of the first block from `i` on of another holder than that of block `i`. */
  groupEnd(i: number): number {
    const holder = this.#holders[i]
    while (i < this.#count && this.#holders[i] === holder) i += 1
    return i
  }

  clear(): void {
    this.#count = 0
  }
}
