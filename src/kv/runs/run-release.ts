/**
 * Returns the memory of runs when few of their blocks are left.
 *
 * Pages and records stay where they are, because anchors, holdings and lists name them; they are released together when
 * the last run is gone. One prompt that all workers keep would therefore keep the memory of the largest index that there
 * ever was. So when pages and records take many times the memory that the blocks left would take as loose ones, the runs
 * left are dissolved, a few per event. Stores and queries make new runs of these blocks.
 */
import { BLOCK_BYTES } from '../loose/loose-blocks.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunDissolution } from './run-dissolution.ts'
import type { RunHoldings } from './run-holdings.ts'
import { COUNT, RUN_STRIDE } from './run-store.ts'

/** Less memory is not worth it. */
const BYTES_MIN = 1 << 20
/**
 * So many times the memory of loose blocks is too much; a smaller factor makes removals of whole chains slower. If blocks
 * are removed in no order, and when memory is short.
 */
const WASTE = 32
const WASTE_IF_RANDOM = 8
const WASTE_IF_SHORT = 2
/** Per event: (holder, block) pairs that become loose (the run in progress is finished), and records that are read. */
const PAIRS_STEP = 1 << 10
const RECORDS_STEP = 1 << 12
/** Runs that begin meanwhile need another pass. After so many, runs begin as fast as they are dissolved. */
const PASSES_MAX = 4

export class RunRelease {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #dissolution: RunDissolution
  #passesLeft = 0
  /** Runs from this one on have been dissolved in this pass. */
  #hand = 0
  /** After giving up: number of blocks ever added to runs before the next attempt. */
  #notBefore = 0

  constructor(blocks: RunBlocks, holdings: RunHoldings, dissolution: RunDissolution) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#dissolution = dissolution
  }

  get isActive(): boolean {
    return this.#passesLeft > 0
  }

  /** Memory that the (holder, block) pairs left in runs will take as loose ones, at most. */
  get bytesLeft(): number {
    return BLOCK_BYTES * this.#holdings.entries
  }

  /** Does a part of the work, if there is any; call before an event. `isRandom`: blocks are removed in no order. */
  tend(isRandom: boolean): void {
    if (this.isActive || this.#begin(isRandom ? WASTE_IF_RANDOM : WASTE)) this.#step()
  }

  /** Memory is short: begins to return that of runs, if much is gained; false if not, or if it has begun before. */
  hurry(): boolean {
    return !this.isActive && this.#begin(WASTE_IF_SHORT)
  }

  #begin(waste: number): boolean {
    const { added, arena, runs } = this.#blocks
    const bytes = arena.bytes + runs.recordBytes
    if (bytes < BYTES_MIN || bytes < waste * this.bytesLeft) return false
    if (runs.hasCrowded || added < this.#notBefore) return false
    this.#passesLeft = PASSES_MAX
    this.#hand = runs.top
    return true
  }

  #step(): void {
    const { runs } = this.#blocks
    let pairs = PAIRS_STEP
    for (let look = 0; look < RECORDS_STEP && pairs > 0 && this.#hand > 0; look++) {
      const run = this.#hand - 1
      if (!runs.isFree(run)) {
        const holders = runs.records[run * RUN_STRIDE + COUNT] as number
        const blocks = Math.ceil(PAIRS_STEP / holders)
        pairs -= holders * this.#dissolution.release(run, blocks)
        if (!runs.isFree(run)) continue
      }
      this.#hand = run
    }
    if (runs.live === 0) {
      this.#passesLeft = 0
      this.#dissolution.endRest()
    } else if (this.#hand === 0) {
      this.#passesLeft -= 1
      this.#hand = runs.top
      this.#notBefore = this.#blocks.added + this.#blocks.arena.end
    }
  }
}
