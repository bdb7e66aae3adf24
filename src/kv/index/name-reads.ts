/**
 * Up to 32 names that are looked up together: where each of them should be.
 *
 * The places are computed first and read in a pass of their own, so that the reads overlap: the processor starts the
 * next read only while its queue has space for everything before it. Used when the names are then added or taken.
 */
import { AHEAD_MAX } from '../loose/loose-table.ts'

/** Cells without a name, of a part that has none and of a block whose holder has no names. */
export const NO_CELLS = new Int32Array(4)

export class NameReads {
  /** By name: the cells of its part; and three words: its first place in them, and the halves of its hash. */
  readonly cells: Int32Array[] = Array.from({ length: AHEAD_MAX }, () => NO_CELLS)
  readonly words = new Int32Array(3 * AHEAD_MAX)
  /** Depends on what is prefetched, so that the compiler cannot remove the reads. */
  prefetched = 0

  prefetch(count: number): void {
    const { cells, words } = this
    let sum = 0
    for (let k = 0; k < count; k++) {
      sum ^= (cells[k] as Int32Array)[words[3 * k] as number] as number
    }
    this.prefetched = sum
  }

  /** Releases the cells of tables that no longer exist. */
  forget(): void {
    this.cells.fill(NO_CELLS)
  }
}
