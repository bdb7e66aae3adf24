/**
 * Whether blocks are better stored as a run or loose. A run has one look-up for all of them and loose blocks have one
 * each, but a run of less than seven blocks takes more memory, and one that is evicted in random order has to be
 * dissolved.
 */
import { LONG_RUN_MIN, RUN_BLOCKS_MIN } from './run-blocks.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunDissolution } from './run-dissolution.ts'
import type { RunSearch } from './run-search.ts'

/** Loose blocks of a short chain become a run from this many (owner, block) pairs on. */
const SHARED_MIN = 32

export class RunWorth {
  readonly #blocks: RunBlocks
  readonly #search: RunSearch
  readonly #dissolution: RunDissolution
  readonly #hasOrphans: boolean

  constructor(
    blocks: RunBlocks,
    search: RunSearch,
    dissolution: RunDissolution,
    hasOrphans: boolean,
  ) {
    this.#blocks = blocks
    this.#search = search
    this.#dissolution = dissolution
    this.#hasOrphans = hasOrphans
  }

  /** Whether all blocks of new runs are anchored. */
  get isDense(): boolean {
    return this.#hasOrphans || this.#search.isTooMuch
  }

  /** Whether so many new blocks should become a run. */
  isWorth(blocks: number): boolean {
    if (blocks >= LONG_RUN_MIN) return true
    // In a dense run each block takes as much memory as a loose one, in addition to the run's.
    if (blocks < RUN_BLOCKS_MIN || this.isDense || this.#dissolution.isResting) return false
    return this.#blocks.mayShare
  }

  /** Whether so many loose blocks of a chain, with so many (owner, block) pairs, should become a run. */
  isWorthMoving(blocks: number, owners: number): boolean {
    return this.isWorth(blocks) || (owners >= SHARED_MIN && owners >= 2 * blocks)
  }
}
