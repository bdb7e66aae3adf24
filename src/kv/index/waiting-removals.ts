/**
 * Removals of one block each that wait until they can be applied together.
 *
 * A removal waits for one or more reads of memory that nothing can prefetch, about 150 ns each in a large index. Reads
 * about many blocks overlap. Events of one message are applied together anyway; this holds removals that arrive one by
 * one. Owns their blocks in order of arrival; the index applies them before it does or answers anything else, so that
 * nobody can tell the difference.
 */
import { AHEAD_MAX } from '../loose/loose-table.ts'

export class WaitingRemovals {
  readonly holders = new Int32Array(AHEAD_MAX)
  readonly hashes = new Uint32Array(2 * AHEAD_MAX)
  /** Number of blocks that wait. */
  count = 0

  get isFull(): boolean {
    return this.count === AHEAD_MAX
  }

  /** The blocks have been removed. */
  clear(): void {
    this.count = 0
  }

  /** Adds a holder's block; there is space. */
  add(holder: number, low: number, high: number): void {
    const i = this.count++
    this.holders[i] = holder
    this.hashes[2 * i] = low
    this.hashes[2 * i + 1] = high
  }
}
