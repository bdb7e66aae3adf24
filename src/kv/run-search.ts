/**
 * Finds a block by its hash: by its anchor, or, where it has none, among the blocks of the holder that the event is from.
 *
 * Owns: how much may be searched. Engines name ends of what they hold, which are anchored, and the points where a
 * prompt leaves another one, which are anchored when the prompt was asked for. Who sees events only has to search for
 * the latter; who gets evictions in no order, for nearly all. When that is too much, runs are made dense, and what is stored meanwhile is dense from the start.
 */
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'
import { END, RUN_STRIDE, START } from './run-store.ts'
import { WantedHashes } from './wanted-hashes.ts'

/** Searches for one hash in a removal, before all that are left are searched for at once. */
const SINGLE_SEARCHES = 2
const SCAN_PER_STORED = 16
/** Blocks that one failed search may anchor, and the rest of a run. */
const DENSIFY_STEP = 1 << 8

export class RunSearch {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #scanFree: number
  #scanned = 0
  /** For the event at hand. */
  #searches = 0
  /** By holder: the end that its last event left, which its next one mostly names; -1: none. Anchored when another comes. */
  #ends = new Int32Array(64).fill(-1)
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

  /** The last event of a holder left an end at a position. The end before is anchored, unless that event consumed it. */
  leaveEnd(holder: number, position: number, consumed: number): void {
    if (holder >= this.#ends.length) {
      const ends = new Int32Array(2 * holder).fill(-1)
      ends.set(this.#ends)
      this.#ends = ends
    }
    const before = this.#ends[holder] as number
    this.#ends[holder] = position
    if (before >= 0 && before !== consumed && this.#isLive(before)) this.#blocks.anchors.add(before)
  }

  #isLive(position: number): boolean {
    const { arena, runs } = this.#blocks
    const record = arena.runOf(position) * RUN_STRIDE
    if (record < 0) return false
    const at = arena.offsetOf(position)
    return (
      at >= (runs.records[record + START] as number) && at < (runs.records[record + END] as number)
    )
  }

  /** Position of a block by what the holder's last event left or by its anchor, or -1. */
  #lookup(low: number, high: number, holder: number): number {
    const { anchors, arena } = this.#blocks
    const end = holder < this.#ends.length ? (this.#ends[holder] as number) : -1
    if (
      end >= 0 &&
      arena.words[2 * end] === low &&
      arena.words[2 * end + 1] === high &&
      this.#isLive(end)
    ) {
      return end
    }
    return anchors.lookup(low, high)
  }

  /** Position of a block (signed halves), surely found when the holder has it; whether it does is not said. */
  locate(low: number, high: number, holder: number): number {
    const position = this.#lookup(low, high, holder)
    if (position >= 0 || this.#holdings.holders.sparseCount(holder) === 0) return position
    this.#searches = 1
    // A prompt goes on where one was stored lately.
    return this.#scan(low, high, holder, true)
  }

  /** Before the hashes of a removal are located. */
  begin(): void {
    this.#searches = 0
  }

  /**
   * As `locate`, for hash `i` of a removal, whose hashes are located from the first to the last. However many of them
   * have no anchor, the blocks of the holder are looked through three times at most.
   */
  locateEvicted(hashes: Uint32Array, i: number, holder: number): number {
    const low = (hashes[2 * i] as number) | 0
    const high = (hashes[2 * i + 1] as number) | 0
    const position = this.#lookup(low, high, holder)
    if (position >= 0 || this.#searches > SINGLE_SEARCHES) return position
    if (this.#holdings.holders.sparseCount(holder) === 0) return position
    this.#searches += 1
    // What is evicted is old.
    if (this.#searches <= SINGLE_SEARCHES) return this.#scan(low, high, holder, false)
    this.#anchorAll(hashes, i, holder)
    return this.#blocks.anchors.lookup(low, high)
  }

  #scan(low: number, high: number, holder: number, isNewestFirst: boolean): number {
    const { list, count } = this.#holdings.holders.of(holder)
    let found = -1
    this.scans += 1
    this.#scanned += count
    for (let k = 0; k < count && found < 0; k++) {
      const run = list[isNewestFirst ? count - 1 - k : k] as number
      if (!this.#blocks.isSparse(run)) continue
      found = this.#blocks.reader.positionIn(run, low, high)
      this.#scanned += this.#blocks.runs.length(run)
    }
    if (found < 0) this.#densifySome(list, count)
    else if (this.isTooMuch) this.#holdings.densify(this.#blocks.arena.runOf(found))
    else this.#blocks.anchors.add(found)
    return found
  }

  /** Anchors those of the hashes from `i` on that the holder has; the others have no anchor afterwards. */
  #anchorAll(hashes: Uint32Array, i: number, holder: number): void {
    const { list, count } = this.#holdings.holders.of(holder)
    const { anchors, reader, runs } = this.#blocks
    const wanted = new WantedHashes(hashes)
    for (let k = i; k < hashes.length >> 1; k++) {
      const position = anchors.lookup(
        (hashes[2 * k] as number) | 0,
        (hashes[2 * k + 1] as number) | 0,
      )
      if (position < 0) wanted.add(k)
    }
    this.scans += 1
    this.#scanned += count
    for (let k = 0; k < count && wanted.left > 0; k++) {
      const run = list[k] as number
      if (!this.#blocks.isSparse(run)) continue
      this.#scanned += runs.length(run)
      reader.anchorWanted(run, wanted, anchors)
    }
  }

  /** After a hash was looked for in vain: when that happens too often, some runs are made dense, once in an event. */
  #densifySome(list: Int32Array, count: number): void {
    let budget = this.#searches === 1 && this.isTooMuch ? DENSIFY_STEP : 0
    for (let k = 0; k < count && budget > 0; k++) {
      budget -= this.#holdings.densify(list[k] as number)
    }
  }
}
