/**
 * Finds a block by its hash: by its anchor, or, where it has none, among the blocks of the holder that the event is from.
 *
 * Owns: how much may be searched. Engines name ends of what they hold, which are anchored, and the points where a
 * prompt leaves another one, which are anchored when the prompt was asked for. Who sees events only has to search for
 * the latter. When that is too much, runs are made dense, and what is stored meanwhile is dense from the start.
 */
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'

/** Which runs of a holder are searched first: a prompt goes on where one was stored lately, evicted is what is old. */
export type SearchOrder = 'newest' | 'oldest'

const SCAN_PER_STORED = 16
/** Blocks that one failed search may anchor. */
const DENSIFY_STEP = 1 << 13

export class RunSearch {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #scanFree: number
  #scanned = 0
  /** Searches that the anchors did not answer. */
  scans = 0

  /** `scanFree`: blocks that may be looked through besides 16 for each stored one. */
  constructor(blocks: RunBlocks, holdings: RunHoldings, scanFree: number) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#scanFree = scanFree
  }

  get isTooMuch(): boolean {
    return this.#scanned > this.#scanFree + SCAN_PER_STORED * this.#blocks.added
  }

  /** Position of a block (signed halves), surely found when the holder has it; whether it does is not said. */
  locate(low: number, high: number, holder: number, first: SearchOrder): number {
    const position = this.#blocks.anchors.lookup(low, high)
    if (position >= 0 || this.#holdings.holders.sparseCount(holder) === 0) return position
    return this.#scan(low, high, holder, first)
  }

  #scan(low: number, high: number, holder: number, first: SearchOrder): number {
    const { list, count } = this.#holdings.holders.of(holder)
    let found = -1
    this.scans += 1
    this.#scanned += count
    for (let k = 0; k < count && found < 0; k++) {
      const run = list[first === 'oldest' ? k : count - 1 - k] as number
      if (!this.#blocks.isSparse(run)) continue
      found = this.#blocks.reader.positionIn(run, low, high)
      this.#scanned += this.#blocks.runs.length(run)
    }
    const { isTooMuch } = this
    if (found >= 0) {
      if (isTooMuch) this.#holdings.densify(this.#blocks.arena.runOf(found))
      else this.#blocks.anchors.add(found)
    } else if (isTooMuch) {
      let budget = DENSIFY_STEP
      for (let k = 0; k < count && budget > 0; k++) {
        budget -= this.#holdings.densify(list[k] as number)
      }
    }
    return found
  }
}
