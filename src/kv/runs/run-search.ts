/**
 * Finds a block by its hash: by its anchor, or else by scanning the blocks of the holder that sent the event.
 *
 * Owns the limits of scanning. Stores name ends of chains, which are anchored, and points where a prompt leaves another
 * one, which are anchored when a query passed them. An index that is never queried has to search for the latter. If
 * there is too much scanning, runs are made dense, and new ones are dense from the start.
 */
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import { PagedWords } from '../words/paged-words.ts'
import type { RunBlocks } from './run-blocks.ts'
import { LOOSE, NOWHERE } from './run-branches.ts'
import type { RunHoldings } from './run-holdings.ts'
import { END, RUN_STRIDE, START } from './run-store.ts'

const SCAN_PER_STORED = 16
/**
 * A failed search anchors so many blocks per block that it has read, which takes about as long as reading them, within these
 * limits (the larger one takes some milliseconds). The run in progress is always finished.
 */
const DENSIFY_PER_READ = 1 / 16
const DENSIFY_MIN = 1 << 8
const DENSIFY_MAX = 1 << 14

export class RunSearch {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  readonly #scanFree: number
  #scanned = 0
  /**
   * By holder: 1 + the position of the end that its last event left, which its next event usually names; 0: none. It
   * is anchored when a later event leaves another end.
   */
  readonly #ends = new PagedWords()
  /** Number of searches that the anchors did not answer. */
  scans = 0

  /** `scanFree`: blocks that may be scanned in addition to 16 per stored block. */
  constructor(blocks: RunBlocks, holdings: RunHoldings, loose: LooseBlocks, scanFree: number) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#loose = loose
    this.#scanFree = scanFree
  }

  get isTooMuch(): boolean {
    return this.#scanned > this.#scanFree + SCAN_PER_STORED * this.#blocks.added
  }

  /** A holder's event left an end at a position. The previous end is anchored, unless the event consumed it. */
  leaveEnd(holder: number, position: number, consumed: number): void {
    this.#ends.reserve(holder + 1)
    const before = this.#ends.get(holder) - 1
    this.#ends.set(holder, position + 1)
    if (before >= 0 && before !== consumed && this.isLive(before)) this.#blocks.anchors.add(before)
  }

  /** Position of the block if it is the end that the holder's last event left, or -1; the block may be gone. */
  endOf(holder: number, low: number, high: number): number {
    const end = holder < this.#ends.length ? this.#ends.get(holder) - 1 : -1
    const { arena } = this.#blocks
    if (end < 0 || end >= arena.end) return -1
    const { words } = arena
    return words[2 * end] === low && words[2 * end + 1] === high ? end : -1
  }

  /** The end that the holder's last event left has moved within its page. */
  moveEnd(holder: number, position: number): void {
    this.#ends.set(holder, position + 1)
  }

  /** Whether the block at a position still belongs to its run. */
  isLive(position: number): boolean {
    const { arena, runs } = this.#blocks
    if (position >= arena.end) return false
    const record = arena.runOf(position) * RUN_STRIDE
    if (record < 0) return false
    const at = arena.offsetOf(position)
    return (
      at >= (runs.records[record + START] as number) && at < (runs.records[record + END] as number)
    )
  }

  /** Position of a block by the holder's last end or by its anchor, or -1. */
  lookup(low: number, high: number, holder: number): number {
    const end = this.endOf(holder, low, high)
    return end >= 0 && this.isLive(end) ? end : this.#blocks.anchors.lookup(low, high)
  }

  /**
   * Place of a block (signed halves), found in any case if the holder has it; whether it does is not checked. A loose
   * block becomes the block found.
   */
  locate(low: number, high: number, holder: number): number {
    const position = this.lookup(low, high, holder)
    if (position >= 0) return position
    if (this.#loose.lookup(low, high)) return LOOSE
    if (this.#holdings.holders.sparseCount(holder) === 0) return NOWHERE
    return this.#scan(low, high, holder)
  }

  #scan(low: number, high: number, holder: number): number {
    const { list, first, count } = this.#holdings.holders.of(holder)
    let found = -1
    this.scans += 1
    let read = count
    // Newest runs first: a prompt usually continues a recent one.
    for (let k = first + count - 1; k >= first && found < 0; k--) {
      const run = list[k] as number
      if (!this.#blocks.isSparse(run)) continue
      found = this.#blocks.reader.positionIn(run, low, high)
      read += this.#blocks.runs.length(run)
    }
    this.#scanned += read
    if (this.isTooMuch) this.#densify(found, holder, read)
    else if (found >= 0) this.#blocks.anchors.add(found)
    return found
  }

  /** Too much scanning: makes the run of the block found dense, or some runs of the holder if none was found. */
  #densify(found: number, holder: number, read: number): void {
    if (found >= 0) this.#holdings.densify(this.#blocks.arena.runOf(found))
    else {
      const budget = Math.max(DENSIFY_MIN, DENSIFY_PER_READ * read)
      this.#densifyRuns(holder, Math.min(DENSIFY_MAX, budget))
    }
  }

  /** Makes runs of a holder dense, with at least `budget` blocks in total if it has them. */
  #densifyRuns(holder: number, budget: number): void {
    if (this.#holdings.holders.sparseCount(holder) === 0) return
    const { list, first, count } = this.#holdings.holders.of(holder)
    for (let k = first; k < first + count && budget > 0; k++) {
      budget -= this.#holdings.densify(list[k] as number)
    }
  }
}
