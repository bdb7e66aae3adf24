/**
 * The event-driven index of one storage tier: chains of blocks as runs on typed arrays, holdings as intervals.
 *
 * Owns: what `stored` and `removed` do, and the walk of a query. A stored or removed stretch is one change of an
 * interval, whatever its length. There is no tree: a sequence hash names its whole prefix, so a query that leaves a
 * run is continued by one look-up of its next hash, and equality at the end of a page means equality of the page.
 *
 * Invariants: a block lies in at most one run; its predecessor is the one before it, unless it begins the run; every
 * first block is anchored. Nothing changes before the capacity for all of an event has been checked.
 */
import { NEXT, PAGE_BITS, PAGE_MASK, PAGE_STRIDE } from './block-arena.ts'
import type { ApplyOutcome } from './prefix-index.ts'
import type { PrefixMatches } from './prefix-matches.ts'
import { RunBlocks } from './run-blocks.ts'
import { RunHoldings } from './run-holdings.ts'
import { COUNT, END, INTERVAL, RUN_STRIDE } from './run-store.ts'

export interface RunIndexOptions {
  /** Different blocks that the tier can hold, rounded up to pages. */
  readonly blocksMax: number
  /**
   * Anchors every block and takes stores after a parent that is not known: for the lower tiers, where chains need not
   * begin at the root. Otherwise only ends of intervals and points where queries left a run are anchored.
   */
  readonly hasOrphans: boolean
  /** Blocks that may be looked through before runs are made dense, besides 16 for each stored block. */
  readonly scanFreeBlocks?: number
}

/** After which block, at which offset of which run, a store goes on; -1 where there is none. */
interface Place {
  readonly run: number
  readonly at: number
  readonly position: number
  /** There is a block before, but it is not known. */
  readonly isOrphan: boolean
}

const SCAN_FREE_DEFAULT = 1 << 18
const SCAN_PER_STORED = 16
/** Blocks that one failed search may anchor. */
const DENSIFY_STEP = 1 << 13

export class RunIndex {
  readonly parts: { readonly blocks: RunBlocks; readonly holdings: RunHoldings }
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #hasOrphans: boolean
  readonly #scanFree: number
  #scanned = 0
  #scans = 0

  constructor(options: RunIndexOptions) {
    this.#blocks = new RunBlocks(options.blocksMax)
    this.#holdings = new RunHoldings(this.#blocks)
    this.parts = { blocks: this.#blocks, holdings: this.#holdings }
    this.#hasOrphans = options.hasOrphans
    this.#scanFree = options.scanFreeBlocks ?? SCAN_FREE_DEFAULT
  }

  get entries(): number {
    return this.#holdings.entries
  }

  get blocks(): number {
    return this.#blocks.count
  }

  get bytes(): number {
    return this.#blocks.bytes + this.#holdings.holders.bytes
  }

  /** Searches that the anchors did not answer. */
  get scans(): number {
    return this.#scans
  }

  /** Whether the holder has the block. */
  holds(holder: number, low: number, high: number): boolean {
    this.#holdings.holders.reserve(holder)
    const position = this.#locate(low, high, holder)
    if (position < 0) return false
    const { arena, runs } = this.#blocks
    return runs.intervalAt(this.#blocks.runOf(position), holder, arena.offsetOf(position)) >= 0
  }

  store(
    holder: number,
    parent: readonly [number, number] | null,
    hashes: Uint32Array,
  ): ApplyOutcome {
    this.#holdings.holders.reserve(holder)
    let run = -1
    let at = 0
    let position = -1
    if (parent !== null) {
      position = this.#locate(parent[0], parent[1], holder)
      if (position >= 0) {
        run = this.#blocks.runOf(position)
        at = this.#blocks.arena.offsetOf(position)
      }
      const isHeld = position >= 0 && this.#blocks.runs.intervalAt(run, holder, at) >= 0
      if (!isHeld && !this.#hasOrphans) return 'parent-not-found'
      at += 1
    }
    if (hashes.length === 0) return 'applied'
    if (!this.#blocks.hasRoom(hashes)) return 'capacity-exhausted'
    this.#place(holder, hashes, { run, at, position, isOrphan: parent !== null && position < 0 })
    return 'applied'
  }

  /** Walks and adds the blocks from a place on. */
  #place(holder: number, hashes: Uint32Array, place: Place): void {
    const { anchors, arena, branches, runs } = this.#blocks
    const count = hashes.length >> 1
    let { run, at, position: before } = place
    let page = before >> PAGE_BITS
    if (run >= 0 && (at & PAGE_MASK) === 0) page = arena.pages[page * PAGE_STRIDE + NEXT] as number
    for (let i = 0; i < count;) {
      const end = run < 0 ? 0 : (runs.records[run * RUN_STRIDE + END] as number)
      if (run >= 0 && at < end) {
        const equal = this.#blocks.match(page, at, Math.min(end - at, count - i), hashes, i)
        if (equal > 0) {
          this.#holdings.cover(run, holder, at, at + equal)
          i += equal
          at += equal
          before = (this.#blocks.matchedPage << PAGE_BITS) + ((at - 1) & PAGE_MASK)
          continue
        }
      }
      const start = branches.mayFollow(before)
        ? anchors.lookup(hashes[2 * i] as number, hashes[2 * i + 1] as number)
        : -1
      if (start >= 0) {
        run = this.#blocks.runOf(start)
        at = arena.offsetOf(start)
        page = start >> PAGE_BITS
        if (before >= 0 && branches.isDetached(run)) branches.attach(run, before)
        continue
      }
      const stop = this.#blocks.nextStart(hashes, i + 1)
      const isNew = run < 0 || at < end
      if (isNew) {
        run = runs.create(this.#hasOrphans)
        at = 0
        if (before >= 0) branches.attach(run, before)
        else if (place.isOrphan) branches.detach(run)
      }
      this.#blocks.append(run, hashes, i, stop - i)
      this.#holdings.cover(run, holder, at, at + stop - i)
      if (!isNew && i === 0) this.#holdings.dropEnd(run, at, before)
      at += stop - i
      i = stop
      before = this.#blocks.lastOf(run)
    }
    anchors.add(before)
  }

  /** 'block-not-found' when some hash was not held; the others are removed all the same. */
  remove(holder: number, hashes: Uint32Array): ApplyOutcome {
    const count = hashes.length >> 1
    const { anchors, arena, runs } = this.#blocks
    this.#holdings.holders.reserve(holder)
    let outcome: ApplyOutcome = 'applied'
    for (let i = 0; i < count;) {
      const position = this.#locate(hashes[2 * i] as number, hashes[2 * i + 1] as number, holder)
      i += 1
      const run = position < 0 ? -1 : this.#blocks.runOf(position)
      let first = position < 0 ? 0 : arena.offsetOf(position)
      const interval = run < 0 ? -1 : runs.intervalAt(run, holder, first)
      if (interval < 0) {
        outcome = 'block-not-found'
        continue
      }
      const list = runs.intervals(run)
      const from = list[interval + 1] as number
      const to = list[interval + 2] as number
      const page = position >> PAGE_BITS
      let stop = first + 1
      // Engines evict a chain from its end, so the next hashes are mostly the blocks before this one.
      const back = this.#blocks.matchBackward(
        page,
        first,
        Math.min(count - i, first - from),
        hashes,
        i,
      )
      if (back > 0) {
        first -= back
        i += back
      } else {
        const limit = Math.min(count - i, to - stop)
        const onward = this.#blocks.matchForward(page, stop, limit, hashes, i)
        stop += onward
        i += onward
      }
      // The next event of this holder will name one of the new ends.
      if (this.#blocks.isSparse(run)) {
        if (first > from) anchors.add(this.#blocks.positionNear(page, first - 1))
        if (stop < to) anchors.add(this.#blocks.positionNear(page, stop))
      }
      this.#holdings.cut(run, holder, interval, first, stop)
    }
    return outcome
  }

  removeHolder(holder: number): void {
    this.#holdings.holders.reserve(holder)
    this.#holdings.removeHolder(holder)
  }

  /** Sets `matches.device`; the caller has cleared `matches`. */
  find(hashes: Uint32Array, matches: PrefixMatches): void {
    matches.reserve(this.#holdings.holders.holderCount)
    const { anchors, arena, runs } = this.#blocks
    const count = hashes.length >> 1
    const { device, holders } = matches
    let found = 0
    for (let i = 0; i < count;) {
      const position = anchors.lookup(hashes[2 * i] as number, hashes[2 * i + 1] as number)
      if (position < 0) break
      const run = this.#blocks.runOf(position)
      const at = arena.offsetOf(position)
      const end = runs.records[run * RUN_STRIDE + END] as number
      const limit = Math.min(end - at, count - i)
      const stop = at + this.#blocks.match(position >> PAGE_BITS, at, limit, hashes, i)
      const list = runs.intervals(run)
      let k = runs.firstInterval(run)
      const last = k + INTERVAL * (runs.records[run * RUN_STRIDE + COUNT] as number)
      const shift = at - i
      let isHeld = false
      if (i === 0) {
        for (; k < last; k += INTERVAL) {
          const to = list[k + 2] as number
          if ((list[k + 1] as number) > at || to <= at) continue
          const holder = list[k] as number
          device[holder] = (to < stop ? to : stop) - shift
          holders[found++] = holder
        }
        isHeld = found > 0
      } else {
        for (; k < last; k += INTERVAL) {
          const holder = list[k] as number
          if (device[holder] !== i || (list[k + 1] as number) > at) continue
          const to = list[k + 2] as number
          if (to <= at) continue
          device[holder] = (to < stop ? to : stop) - shift
          isHeld = true
        }
      }
      i = stop - shift
      // The next store of this prompt will name the block before the point where it left the run.
      if (stop < end)
        anchors.add((this.#blocks.matchedPage << PAGE_BITS) + ((stop - 1) & PAGE_MASK))
      if (!isHeld) break
    }
    matches.count = found
  }

  /**
   * Adds to `own` (`matches.host` or `matches.disk`) what follows without a gap after the blocks that each holder has
   * on the tiers above: `matches.device` and, when given, `upper`. For an index with orphans.
   */
  extend(
    hashes: Uint32Array,
    matches: PrefixMatches,
    own: Int32Array,
    upper: Int32Array | null,
  ): void {
    if (this.entries === 0) return
    matches.hasLower = true
    const { anchors, arena, runs } = this.#blocks
    const count = hashes.length >> 1
    const { device } = matches
    for (let i = 0; i < count;) {
      const position = anchors.lookup(hashes[2 * i] as number, hashes[2 * i + 1] as number)
      if (position < 0) {
        i += 1
        continue
      }
      const run = this.#blocks.runOf(position)
      const at = arena.offsetOf(position)
      const limit = Math.min((runs.records[run * RUN_STRIDE + END] as number) - at, count - i)
      const stop = at + this.#blocks.match(position >> PAGE_BITS, at, limit, hashes, i)
      const shift = at - i
      const list = runs.intervals(run)
      let k = runs.firstInterval(run)
      const last = k + INTERVAL * (runs.records[run * RUN_STRIDE + COUNT] as number)
      for (; k < last; k += INTERVAL) {
        const holder = list[k] as number
        const above = (device[holder] as number) + (upper === null ? 0 : (upper[holder] as number))
        const reached = above + (own[holder] as number)
        const to = Math.min(list[k + 2] as number, stop) - shift
        if ((list[k + 1] as number) - shift > reached || to <= reached) continue
        if (reached === 0) matches.add(holder)
        own[holder] = to - above
      }
      i = stop - shift
    }
  }

  /** Position of a block, surely found when the holder has it; the caller checks whether it does. */
  #locate(low: number, high: number, holder: number): number {
    const position = this.#blocks.anchors.lookup(low, high)
    if (position >= 0 || this.#holdings.holders.sparseCount(holder) === 0) return position
    return this.#scan(low, high, holder)
  }

  /** Looks through what the holder has: for events whose request never came by here, and for unknown hashes. */
  #scan(low: number, high: number, holder: number): number {
    const { list, count } = this.#holdings.holders.of(holder)
    let found = -1
    this.#scans += 1
    this.#scanned += count
    for (let k = 0; k < count && found < 0; k++) {
      const run = list[k] as number
      if (!this.#blocks.isSparse(run)) continue
      found = this.#blocks.positionIn(run, low, high)
      this.#scanned += this.#blocks.runs.length(run)
    }
    const isTooMuch = this.#scanned > this.#scanFree + SCAN_PER_STORED * this.#blocks.added
    if (found >= 0) {
      if (isTooMuch) this.#holdings.densify(this.#blocks.runOf(found))
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
