/**
 * Brings what is kept of some hashes into the processor's cache before events about them are applied.
 *
 * Owns: the order of the reads. Looking up one block is a chain of reads, each of which waits for the one before (slot,
 * block, run, holding); done for many blocks link by link, the reads of one link do not wait for each other. Nothing is
 * changed and nothing is promised: what is applied afterwards looks everything up by itself.
 */
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'
import { RUN_STRIDE, START } from './run-store.ts'

/** Hashes that are brought at once: more would push each other out of the first cache. */
export const AHEAD_MAX = 32
/** Fewer anchors than this lie in the cache anyway. */
const ANCHORS_MIN = 1 << 13

export class RunLookAhead {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  readonly #places = new Int32Array(AHEAD_MAX)
  /** What was read, so that the reads are not optimised away. */
  touched = 0

  constructor(blocks: RunBlocks, holdings: RunHoldings, loose: LooseBlocks) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#loose = loose
  }

  /** Brings the first `count` hashes, `AHEAD_MAX` at most. */
  touch(hashes: Uint32Array, count: number): void {
    this.#loose.touch(hashes, 0, count)
    if (this.#blocks.anchors.count >= ANCHORS_MIN) this.#touchRuns(hashes, count)
  }

  #touchRuns(hashes: Uint32Array, count: number): void {
    const { anchors, arena, runs } = this.#blocks
    const { marks, words } = arena
    const places = this.#places
    let sum = 0
    for (let i = 0; i < count; i++) {
      sum ^= anchors.touch((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0)
    }
    for (let i = 0; i < count; i++) {
      const low = (hashes[2 * i] as number) | 0
      const position = anchors.candidate(low, (hashes[2 * i + 1] as number) | 0)
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
