/**
 * Prefetches the data of some hashes into the CPU cache before events about them are applied.
 *
 * Looking up one block is a chain of dependent reads (slot, block, run, holding). For many blocks the reads are made
 * level by level, so that the reads of one level overlap. Nothing is changed, and correctness does not depend on it:
 * applying an event looks everything up again.
 */
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import { AHEAD_MAX } from '../loose/loose-table.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'
import { RUN_STRIDE, START } from './run-store.ts'

/** With fewer anchors the table is in the cache anyway. */
const ANCHORS_MIN = 1 << 13

export class RunLookAhead {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  readonly #places = new Int32Array(AHEAD_MAX)
  /** A sum of the values read, so that the compiler cannot remove the reads. */
  touched = 0

  constructor(blocks: RunBlocks, holdings: RunHoldings, loose: LooseBlocks) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#loose = loose
  }

  /** Prefetches for hashes `from` .. `to`, at most `AHEAD_MAX`. */
  touch(hashes: Uint32Array, from: number, to: number): void {
    this.#loose.prefetch(hashes, from, to)
    if (this.#blocks.anchors.count >= ANCHORS_MIN) this.#touchRuns(hashes, from, to)
  }

  #touchRuns(hashes: Uint32Array, from: number, to: number): void {
    const { anchors, arena, runs } = this.#blocks
    const { marks, words } = arena
    const places = this.#places
    let sum = 0
    const count = to - from
    for (let i = from; i < to; i++) {
      sum ^= anchors.touch((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0)
    }
    for (let i = 0; i < count; i++) {
      const low = (hashes[2 * (from + i)] as number) | 0
      const position = anchors.candidate(low, (hashes[2 * (from + i) + 1] as number) | 0)
      places[i] = position
      if (position >= 0) sum ^= (words[2 * position] as number) ^ (marks[position >> 4] as number)
    }
    for (let i = 0; i < count; i++) {
      const position = places[i] as number
      const run = position < 0 ? -1 : arena.runOf(position)
      places[i] = run
      if (run >= 0) sum ^= runs.records[run * RUN_STRIDE + START] as number
    }
    for (let i = 0; i < count; i++) {
      const run = places[i] as number
      if (run < 0 || runs.isFree(run)) continue
      const held = runs.holdings(run)[runs.firstHolding(run) + 1] as number
      sum ^= this.#holdings.highOf(held)
    }
    this.touched = sum
  }
}
