/**
 * The event-driven index of one storage tier: chains of blocks as runs on typed arrays, holdings as intervals.
 *
 * Owns: what `stored` and `removed` do to the runs, and the walk of a query. A stored or removed stretch is one
 * change of an interval, whatever its length. There is no tree: a sequence hash names its whole prefix, so a query
 * that leaves a run is continued by one look-up of its next hash, and equality at the end of a page of 32 blocks
 * means equality of the page.
 *
 * Invariants: a block lies in at most one run; a block's predecessor is the one before it in its run, unless it
 * begins the run; every first block of a run is anchored; a run has a holder at its first and at its last block.
 * Nothing changes before the capacity for all of an event has been checked.
 */
import { assert } from '../base/index.ts'
import { AnchorTable } from './anchor-table.ts'
import { BlockArena, INDEX, NEXT, PAGE_BITS, PAGE_BLOCKS, PAGE_MASK } from './block-arena.ts'
import { PAGE_STRIDE, PREVIOUS, RUN } from './block-arena.ts'
import { HolderRuns } from './holder-runs.ts'
import type { ApplyOutcome } from './prefix-index.ts'
import type { PrefixMatches } from './prefix-matches.ts'
import { COUNT, DENSE, END, FIRST_PAGE, INTERVAL, LAST_PAGE } from './run-store.ts'
import { RunStore, RUN_STRIDE, START } from './run-store.ts'
import { StartFilter } from './start-filter.ts'

export interface RunIndexOptions {
  /** Different blocks that the tier can hold, rounded up to pages. */
  readonly blocksMax: number
  /**
   * Anchors every block and takes stores after a parent that is not known: for the lower tiers, where chains need not
   * begin at the root. Otherwise only ends of intervals and points where queries left a run are anchored.
   */
  readonly hasOrphans: boolean
}

/** From this length on a native copy beats a loop. */
const COPY_MIN = 64
/** Blocks that may be looked through for free, and for each stored block; beyond that runs are made dense. */
const SCAN_FREE = 1 << 18
const SCAN_PER_STORED = 16
/** Blocks that one failed search may anchor. */
const DENSIFY_STEP = 1 << 13
/** Intervals that are looked through to learn whether another one ends where an anchor is dropped. */
const SHARED_END_MAX = 8

export class RunIndex {
  readonly #arena: BlockArena
  readonly #anchors: AnchorTable
  readonly #runs = new RunStore()
  readonly #holders = new HolderRuns(this.#runs)
  readonly #starts = new StartFilter()
  readonly #hasOrphans: boolean
  #entries = 0
  #blocks = 0
  #stored = 0
  #scanned = 0
  #scans = 0
  /** Page of the last block that `#match` found equal. */
  #matchedPage = 0

  constructor(options: RunIndexOptions) {
    this.#arena = new BlockArena(options.blocksMax)
    this.#anchors = new AnchorTable(this.#arena)
    this.#hasOrphans = options.hasOrphans
  }

  get entries(): number {
    return this.#entries
  }

  get blocks(): number {
    return this.#blocks
  }

  get runCount(): number {
    return this.#runs.live
  }

  get anchorCount(): number {
    return this.#anchors.count
  }

  get pageCount(): number {
    return this.#arena.pagesLive
  }

  /** Searches that the anchors did not answer. */
  get scanCount(): number {
    return this.#scans
  }

  get bytes(): number {
    return (
      this.#arena.bytes +
      this.#anchors.bytes +
      this.#runs.bytes +
      this.#holders.bytes +
      this.#starts.bytes
    )
  }

  /** Whether the holder has the block. */
  holds(holder: number, low: number, high: number): boolean {
    this.#holders.reserve(holder)
    const position = this.#locate(low, high, holder)
    if (position < 0) return false
    return this.#runs.intervalAt(this.#runOf(position), holder, this.#arena.offsetOf(position)) >= 0
  }

  store(
    holder: number,
    parent: readonly [number, number] | null,
    hashes: Uint32Array,
  ): ApplyOutcome {
    const count = hashes.length >> 1
    this.#holders.reserve(holder)
    let run = -1
    let at = 0
    let parentPosition = -1
    if (parent !== null) {
      parentPosition = this.#locate(parent[0], parent[1], holder)
      if (parentPosition >= 0) {
        run = this.#runOf(parentPosition)
        at = this.#arena.offsetOf(parentPosition)
        if (!this.#hasOrphans && this.#runs.intervalAt(run, holder, at) < 0)
          return 'parent-not-found'
        at += 1
      } else if (!this.#hasOrphans) return 'parent-not-found'
    }
    if (count === 0) return 'applied'
    if (!this.#hasRoom(hashes, count)) return 'capacity-exhausted'
    this.#place(holder, hashes, run, at, parentPosition)
    return 'applied'
  }

  /** Walks and adds the blocks, from offset `at` of a run on (-1: from nowhere). */
  #place(
    holder: number,
    hashes: Uint32Array,
    run: number,
    at: number,
    parentPosition: number,
  ): void {
    const count = hashes.length >> 1
    let page = parentPosition >> PAGE_BITS
    if (run >= 0 && (at & PAGE_MASK) === 0)
      page = this.#arena.pages[page * PAGE_STRIDE + NEXT] as number
    for (let i = 0; ;) {
      const end = run < 0 ? 0 : (this.#runs.records[run * RUN_STRIDE + END] as number)
      if (run >= 0 && at < end) {
        const equal = this.#match(page, at, Math.min(end - at, count - i), hashes, i)
        if (equal > 0) {
          this.#cover(run, holder, at, at + equal)
          i += equal
          at += equal
        }
        if (i === count) {
          this.#anchors.add((this.#matchedPage << PAGE_BITS) + ((at - 1) & PAGE_MASK))
          return
        }
      }
      const start = this.#startingWith(hashes, i)
      if (start >= 0) {
        run = this.#runOf(start)
        at = this.#arena.offsetOf(start)
        page = start >> PAGE_BITS
        continue
      }
      let stop = i + 1
      while (stop < count && this.#startingWith(hashes, stop) < 0) stop += 1
      const isNew = run < 0 || at < end
      if (isNew) {
        run = this.#runs.create(this.#hasOrphans)
        at = 0
      }
      this.#append(run, hashes, i, stop - i)
      if (isNew) this.#addStart(run)
      this.#cover(run, holder, at, at + stop - i)
      if (!isNew && i === 0) this.#dropEnd(run, at, parentPosition)
      at += stop - i
      i = stop
      if (i === count) {
        const last = this.#runs.records[run * RUN_STRIDE + LAST_PAGE] as number
        this.#anchors.add((last << PAGE_BITS) + ((at - 1) & PAGE_MASK))
        return
      }
    }
  }

  /** 'block-not-found' when some hash was not held; the others are removed all the same. */
  remove(holder: number, hashes: Uint32Array): ApplyOutcome {
    const count = hashes.length >> 1
    const { hashes: blocks, pages } = this.#arena
    this.#holders.reserve(holder)
    let outcome: ApplyOutcome = 'applied'
    for (let i = 0; i < count;) {
      const position = this.#locate(hashes[2 * i] as number, hashes[2 * i + 1] as number, holder)
      i += 1
      const run = position < 0 ? -1 : this.#runOf(position)
      const offset = position < 0 ? 0 : this.#arena.offsetOf(position)
      const interval = run < 0 ? -1 : this.#runs.intervalAt(run, holder, offset)
      if (interval < 0) {
        outcome = 'block-not-found'
        continue
      }
      const list = this.#runs.intervals(run)
      // Engines evict a chain from its end, so the next hashes are mostly the blocks before this one.
      const from = list[interval + 1] as number
      let firstPage = position >> PAGE_BITS
      let first = offset
      while (i < count && first > from) {
        const slot = first & PAGE_MASK
        const page = slot === 0 ? (pages[firstPage * PAGE_STRIDE + PREVIOUS] as number) : firstPage
        const block = 2 * ((page << PAGE_BITS) + ((slot - 1) & PAGE_MASK))
        if (blocks[block] !== hashes[2 * i] || blocks[block + 1] !== hashes[2 * i + 1]) break
        firstPage = page
        first -= 1
        i += 1
      }
      let lastPage = position >> PAGE_BITS
      let stop = offset + 1
      const to = list[interval + 2] as number
      while (first === offset && i < count && stop < to) {
        const slot = stop & PAGE_MASK
        const page = slot === 0 ? (pages[lastPage * PAGE_STRIDE + NEXT] as number) : lastPage
        const block = 2 * ((page << PAGE_BITS) + slot)
        if (blocks[block] !== hashes[2 * i] || blocks[block + 1] !== hashes[2 * i + 1]) break
        lastPage = page
        stop += 1
        i += 1
      }
      this.#anchorAround(run, interval, { first, firstPage, stop, lastPage })
      this.#cut(run, holder, interval, first, stop)
    }
    return outcome
  }

  removeHolder(holder: number): void {
    this.#holders.reserve(holder)
    const { list, count } = this.#holders.of(holder)
    for (let k = 0; k < count; k++) {
      const run = list[k] as number
      for (;;) {
        const interval = this.#runs.isFree(run) ? -1 : this.#runs.anyInterval(run, holder)
        if (interval < 0) break
        const intervals = this.#runs.intervals(run)
        const from = intervals[interval + 1] as number
        this.#cut(run, holder, interval, from, intervals[interval + 2] as number)
      }
    }
    this.#holders.forget(holder)
  }

  /** Sets `matches.device`; the caller has cleared `matches`. */
  find(hashes: Uint32Array, matches: PrefixMatches): void {
    matches.reserve(this.#holders.holderCount)
    const count = hashes.length >> 1
    const { device, holders } = matches
    let found = 0
    for (let i = 0; i < count;) {
      const position = this.#anchors.lookup(hashes[2 * i] as number, hashes[2 * i + 1] as number)
      if (position < 0) break
      const run = this.#runOf(position)
      const at = this.#arena.offsetOf(position)
      const end = this.#runs.records[run * RUN_STRIDE + END] as number
      const limit = Math.min(end - at, count - i)
      const stop = at + this.#match(position >> PAGE_BITS, at, limit, hashes, i)
      const list = this.#runs.intervals(run)
      let k = this.#runs.firstInterval(run)
      const last = k + INTERVAL * (this.#runs.records[run * RUN_STRIDE + COUNT] as number)
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
      if (stop < end) this.#anchors.add((this.#matchedPage << PAGE_BITS) + ((stop - 1) & PAGE_MASK))
      if (!isHeld) break
    }
    matches.count = found
  }

  /**
   * Adds to `own` (`matches.host` or `matches.disk`) what follows without a gap after `before`, the blocks that each
   * holder has on the tiers above.
   */
  extend(
    hashes: Uint32Array,
    matches: PrefixMatches,
    own: Int32Array,
    upper: Int32Array | null,
  ): void {
    if (this.#entries === 0) return
    const count = hashes.length >> 1
    const { device } = matches
    for (let i = 0; i < count;) {
      const position = this.#anchors.lookup(hashes[2 * i] as number, hashes[2 * i + 1] as number)
      if (position < 0) {
        i += 1
        continue
      }
      const run = this.#runOf(position)
      const at = this.#arena.offsetOf(position)
      const end = this.#runs.records[run * RUN_STRIDE + END] as number
      const limit = Math.min(end - at, count - i)
      const stop = at + this.#match(position >> PAGE_BITS, at, limit, hashes, i)
      const shift = at - i
      const list = this.#runs.intervals(run)
      let k = this.#runs.firstInterval(run)
      const last = k + INTERVAL * (this.#runs.records[run * RUN_STRIDE + COUNT] as number)
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

  /** Throws when an invariant does not hold; for tests. */
  verify(): void {
    const { records } = this.#runs
    let blocks = 0
    let entries = 0
    for (let run = 0; run < this.#runs.top; run++) {
      if (this.#runs.isFree(run)) continue
      const record = run * RUN_STRIDE
      const start = records[record + START] as number
      const end = records[record + END] as number
      blocks += end - start
      assert(this.#runs.lowest(run) === start, `run ${run} has a holder at its first block`)
      assert(this.#runs.highest(run) === end, `run ${run} has a holder at its last block`)
      const list = this.#runs.intervals(run)
      let k = this.#runs.firstInterval(run)
      const last = k + INTERVAL * (records[record + COUNT] as number)
      for (; k < last; k += INTERVAL) entries += (list[k + 2] as number) - (list[k + 1] as number)
      let page = records[record + FIRST_PAGE] as number
      for (let at = start; at < end; at++) {
        const position = (page << PAGE_BITS) + (at & PAGE_MASK)
        assert(this.#runOf(position) === run, `page ${page} belongs to run ${run}`)
        assert(this.#arena.offsetOf(position) === at, `page ${page} is at its offset`)
        const low = this.#arena.hashes[2 * position] as number
        const high = this.#arena.hashes[2 * position + 1] as number
        const found = this.#anchors.lookup(low, high)
        const isAnchored = found === position
        assert(found < 0 || isAnchored, `block ${position} is in one run only`)
        if (at === start || !this.#isSparse(run))
          assert(isAnchored, `block ${position} is anchored`)
        if (at === start) assert(this.#starts.mayHave(low), `start ${position} is in the filter`)
        if ((at & PAGE_MASK) === PAGE_MASK) {
          page = this.#arena.pages[page * PAGE_STRIDE + NEXT] as number
        }
      }
    }
    assert(blocks === this.#blocks, `${blocks} blocks, counted ${this.#blocks}`)
    assert(entries === this.#entries, `${entries} entries, counted ${this.#entries}`)
    if (blocks === 0) {
      assert(
        this.#arena.pagesLive === 0 && this.#anchors.count === 0,
        'an empty index keeps nothing',
      )
    }
  }

  // --- look-up -------------------------------------------------------------------------------------------------

  #runOf(position: number): number {
    return this.#arena.pages[(position >> PAGE_BITS) * PAGE_STRIDE + RUN] as number
  }

  /** Position of a block, surely found when the holder has it; the caller checks whether it does. */
  #locate(low: number, high: number, holder: number): number {
    const position = this.#anchors.lookup(low, high)
    if (position >= 0 || this.#holders.sparseCount(holder) === 0) return position
    return this.#scan(low, high, holder)
  }

  /** Position of the run that begins with hash `i`, or -1. */
  #startingWith(hashes: Uint32Array, i: number): number {
    const low = hashes[2 * i] as number
    return this.#starts.mayHave(low) ? this.#anchors.lookup(low, hashes[2 * i + 1] as number) : -1
  }

  /** How many of `limit` blocks from a place of a run on equal the hashes from `i` on. */
  #match(page: number, at: number, limit: number, hashes: Uint32Array, i: number): number {
    const { hashes: blocks, pages } = this.#arena
    let equal = 0
    while (equal < limit) {
      const slot = (at + equal) & PAGE_MASK
      const chunk = Math.min(PAGE_BLOCKS - slot, limit - equal)
      const block = 2 * ((page << PAGE_BITS) + slot)
      const query = 2 * (i + equal)
      let high = 2 * (chunk - 1)
      if (
        blocks[block + high] === hashes[query + high] &&
        blocks[block + high + 1] === hashes[query + high + 1]
      ) {
        equal += chunk
        this.#matchedPage = page
        if (equal < limit) page = pages[page * PAGE_STRIDE + NEXT] as number
        continue
      }
      let low = 0
      while (low < high) {
        const middle = ((low + high) >> 2) << 1
        if (
          blocks[block + middle] === hashes[query + middle] &&
          blocks[block + middle + 1] === hashes[query + middle + 1]
        ) {
          low = middle + 2
        } else high = middle
      }
      if (low > 0) this.#matchedPage = page
      return equal + (low >> 1)
    }
    return equal
  }

  /** Looks through what the holder has: for events whose request never came by here, and for unknown hashes. */
  #scan(low: number, high: number, holder: number): number {
    const { list, count } = this.#holders.of(holder)
    let found = -1
    let looked = 4 * count
    for (let k = 0; k < count && found < 0; k++) {
      const run = list[k] as number
      if (this.#runs.records[run * RUN_STRIDE + DENSE] === 1) continue
      looked += this.#runs.records[run * RUN_STRIDE + END] as number
      looked -= this.#runs.records[run * RUN_STRIDE + START] as number
      found = this.#positionIn(run, low, high)
    }
    this.#scans += 1
    this.#scanned += looked
    const isTooMuch = this.#scanned > SCAN_FREE + SCAN_PER_STORED * this.#stored
    if (found >= 0) {
      if (isTooMuch) this.#densify(this.#runOf(found))
      else this.#anchors.add(found)
    } else if (isTooMuch) {
      let budget = DENSIFY_STEP
      for (let k = 0; k < count && budget > 0; k++) budget -= this.#densify(list[k] as number)
    }
    return found
  }

  #positionIn(run: number, low: number, high: number): number {
    const { hashes: blocks, pages } = this.#arena
    const { records } = this.#runs
    const end = records[run * RUN_STRIDE + END] as number
    let page = records[run * RUN_STRIDE + FIRST_PAGE] as number
    for (let at = records[run * RUN_STRIDE + START] as number; at < end;) {
      const stop = Math.min(end, (at | PAGE_MASK) + 1)
      let block = 2 * ((page << PAGE_BITS) + (at & PAGE_MASK))
      const last = block + 2 * (stop - at)
      for (; block < last; block += 2) {
        if (blocks[block] === low && blocks[block + 1] === high) return block >> 1
      }
      at = stop
      page = pages[page * PAGE_STRIDE + NEXT] as number
    }
    return -1
  }

  /** Anchors every block of a run; returns how many it has. */
  #densify(run: number): number {
    const { records } = this.#runs
    if (records[run * RUN_STRIDE + DENSE] === 1) return 0
    records[run * RUN_STRIDE + DENSE] = 1
    const start = records[run * RUN_STRIDE + START] as number
    const end = records[run * RUN_STRIDE + END] as number
    let page = records[run * RUN_STRIDE + FIRST_PAGE] as number
    for (let at = start; at < end; at++) {
      this.#anchors.add((page << PAGE_BITS) + (at & PAGE_MASK))
      if ((at & PAGE_MASK) === PAGE_MASK) {
        page = this.#arena.pages[page * PAGE_STRIDE + NEXT] as number
      }
    }
    const list = this.#runs.intervals(run)
    let k = this.#runs.firstInterval(run)
    const last = k + INTERVAL * (records[run * RUN_STRIDE + COUNT] as number)
    for (; k < last; k += INTERVAL) this.#holders.densified(list[k] as number)
    return end - start
  }

  // --- blocks and runs -----------------------------------------------------------------------------------------

  /** Whether all blocks of a store surely fit, however they fall into runs. */
  #hasRoom(hashes: Uint32Array, count: number): boolean {
    const available = this.#arena.pagesAvailable
    const full = Math.ceil(count / PAGE_BLOCKS)
    if (available >= full + 2 * (count + 1)) return true
    let pieces = 1
    for (let i = 0; i < count; i++) if (this.#starts.mayHave(hashes[2 * i] as number)) pieces += 1
    return available >= full + pieces
  }

  #append(run: number, hashes: Uint32Array, from: number, count: number): void {
    const { pages } = this.#arena
    const { records } = this.#runs
    const record = run * RUN_STRIDE
    const begin = records[record + END] as number
    const end = begin + count
    let page = records[record + LAST_PAGE] as number
    let copied = 0
    let target = -1
    let pending = 0
    for (let at = begin; at < end;) {
      if (page < 0 || (at & PAGE_MASK) === 0) {
        const next = this.#arena.take(run, at >> PAGE_BITS)
        if (page < 0) records[record + FIRST_PAGE] = next
        else {
          pages[page * PAGE_STRIDE + NEXT] = next
          pages[next * PAGE_STRIDE + PREVIOUS] = page
        }
        page = next
      }
      const stop = Math.min(end, (at | PAGE_MASK) + 1)
      const position = (page << PAGE_BITS) + (at & PAGE_MASK)
      if (position !== target + pending) {
        this.#copy(target, pending, hashes, from + copied)
        copied += pending
        target = position
        pending = 0
      }
      pending += stop - at
      at = stop
    }
    this.#copy(target, pending, hashes, from + copied)
    records[record + END] = end
    records[record + LAST_PAGE] = page
    this.#blocks += count
    this.#stored += count
    if (records[record + DENSE] === 1) this.#anchorTail(run, begin)
  }

  #copy(position: number, count: number, hashes: Uint32Array, from: number): void {
    const { hashes: blocks } = this.#arena
    if (count >= COPY_MIN) {
      blocks.set(hashes.subarray(2 * from, 2 * (from + count)), 2 * position)
      return
    }
    let target = 2 * position
    let source = 2 * from
    for (const last = source + 2 * count; source < last; source++, target++) {
      blocks[target] = hashes[source] as number
    }
  }

  /** Anchors the blocks of a dense run from an offset on. */
  #anchorTail(run: number, begin: number): void {
    const { records } = this.#runs
    let page = records[run * RUN_STRIDE + LAST_PAGE] as number
    for (let at = (records[run * RUN_STRIDE + END] as number) - 1; at >= begin; at--) {
      this.#anchors.add((page << PAGE_BITS) + (at & PAGE_MASK))
      if ((at & PAGE_MASK) === 0) page = this.#arena.pages[page * PAGE_STRIDE + PREVIOUS] as number
    }
  }

  #addStart(run: number): void {
    const { records } = this.#runs
    const page = records[run * RUN_STRIDE + FIRST_PAGE] as number
    const at = records[run * RUN_STRIDE + START] as number
    const position = (page << PAGE_BITS) + (at & PAGE_MASK)
    this.#anchors.add(position)
    this.#starts.add(this.#arena.hashes[2 * position] as number)
    if (this.#starts.isWorn) this.#renewStarts()
  }

  #renewStarts(): void {
    this.#starts.reset(this.#runs.live)
    const { records } = this.#runs
    for (let run = 0; run < this.#runs.top; run++) {
      const record = run * RUN_STRIDE
      if (this.#runs.isFree(run)) continue
      const page = records[record + FIRST_PAGE] as number
      const position = (page << PAGE_BITS) + ((records[record + START] as number) & PAGE_MASK)
      this.#starts.add(this.#arena.hashes[2 * position] as number)
    }
  }

  // --- holdings ------------------------------------------------------------------------------------------------

  /** The holder has [from, to) of a run as well. */
  #cover(run: number, holder: number, from: number, to: number): void {
    const list = this.#runs.intervals(run)
    let k = this.#runs.firstInterval(run)
    let last = k + INTERVAL * (this.#runs.records[run * RUN_STRIDE + COUNT] as number)
    const touches = (i: number): boolean =>
      list[i] === holder && (list[i + 1] as number) <= to && (list[i + 2] as number) >= from
    while (k < last && !touches(k)) k += INTERVAL
    if (k === last) {
      this.#runs.add(run, holder, from, to)
      this.#entries += to - from
      this.#holders.entered(holder, run, this.#isSparse(run))
      return
    }
    const oldFrom = list[k + 1] as number
    const oldTo = list[k + 2] as number
    if (oldFrom <= from && oldTo >= to) return
    list[k + 1] = Math.min(oldFrom, from)
    list[k + 2] = Math.max(oldTo, to)
    this.#entries += (list[k + 2] as number) - (list[k + 1] as number) - (oldTo - oldFrom)
    // A filled hole joins two intervals, or more.
    from = list[k + 1] as number
    to = list[k + 2] as number
    for (let other = k + INTERVAL; other < last;) {
      if (!touches(other)) {
        other += INTERVAL
        continue
      }
      const joinedFrom = Math.min(from, list[other + 1] as number)
      const joinedTo = Math.max(to, list[other + 2] as number)
      this.#entries += joinedTo - joinedFrom - (to - from)
      this.#entries -= (list[other + 2] as number) - (list[other + 1] as number)
      list[k + 1] = from = joinedFrom
      list[k + 2] = to = joinedTo
      list[other] = list[last - 3] as number
      list[other + 1] = list[last - 2] as number
      list[other + 2] = list[last - 1] as number
      last -= INTERVAL
      this.#runs.dropLast(run)
      this.#holders.left(holder, this.#isSparse(run))
    }
  }

  #isSparse(run: number): boolean {
    return this.#runs.records[run * RUN_STRIDE + DENSE] === 0
  }

  /** The holder loses [from, to) of one of its intervals. */
  #cut(run: number, holder: number, interval: number, from: number, to: number): void {
    const list = this.#runs.intervals(run)
    const oldFrom = list[interval + 1] as number
    const oldTo = list[interval + 2] as number
    this.#entries -= to - from
    if (from === oldFrom && to === oldTo) {
      this.#runs.remove(run, interval)
      this.#holders.left(holder, this.#isSparse(run))
    } else if (from === oldFrom) list[interval + 1] = to
    else {
      list[interval + 2] = from
      if (to < oldTo) {
        this.#runs.add(run, holder, to, oldTo)
        this.#holders.entered(holder, run, this.#isSparse(run))
      }
    }
    const { records } = this.#runs
    const record = run * RUN_STRIDE
    if (records[record + COUNT] === 0) this.#free(run)
    else {
      if (to === records[record + END]) this.#trimTail(run, this.#runs.highest(run))
      if (from === records[record + START]) this.#trimHead(run, this.#runs.lowest(run))
    }
  }

  /** The new ends of an interval out of which [first, stop) is to be cut: the next event will name one of them. */
  #anchorAround(
    run: number,
    interval: number,
    cut: { first: number; firstPage: number; stop: number; lastPage: number },
  ): void {
    if (!this.#isSparse(run)) return
    const list = this.#runs.intervals(run)
    const { pages } = this.#arena
    const { first, firstPage, stop, lastPage } = cut
    if (first > (list[interval + 1] as number)) {
      const slot = (first - 1) & PAGE_MASK
      const page =
        slot === PAGE_MASK ? (pages[firstPage * PAGE_STRIDE + PREVIOUS] as number) : firstPage
      this.#anchors.add((page << PAGE_BITS) + slot)
    }
    if (stop < (list[interval + 2] as number)) {
      const slot = stop & PAGE_MASK
      const page = slot === 0 ? (pages[lastPage * PAGE_STRIDE + NEXT] as number) : lastPage
      this.#anchors.add((page << PAGE_BITS) + slot)
    }
  }

  /** Forgets the anchor of what was an interval's last block, when no other interval ends there. */
  #dropEnd(run: number, end: number, position: number): void {
    const { records } = this.#runs
    if (records[run * RUN_STRIDE + DENSE] === 1) return
    if ((records[run * RUN_STRIDE + START] as number) === end - 1) return
    const count = records[run * RUN_STRIDE + COUNT] as number
    if (count > SHARED_END_MAX) return
    const list = this.#runs.intervals(run)
    let k = this.#runs.firstInterval(run)
    for (const last = k + INTERVAL * count; k < last; k += INTERVAL) if (list[k + 2] === end) return
    this.#anchors.drop(position)
  }

  #trimTail(run: number, end: number): void {
    const { records } = this.#runs
    const record = run * RUN_STRIDE
    const start = records[record + START] as number
    let at = records[record + END] as number
    if (at === end) return
    this.#blocks -= at - end
    let page = records[record + LAST_PAGE] as number
    while (at > end) {
      const begin = (this.#arena.pages[page * PAGE_STRIDE + INDEX] as number) << PAGE_BITS
      const stop = Math.max(begin, end, start)
      this.#anchors.dropSlots(page, stop - begin, at - begin)
      at = stop
      if (stop === begin || stop === start) {
        const previous = this.#arena.pages[page * PAGE_STRIDE + PREVIOUS] as number
        this.#arena.release(page)
        page = previous
      }
    }
    records[record + END] = end
    records[record + LAST_PAGE] = page
    if (page >= 0) this.#arena.pages[page * PAGE_STRIDE + NEXT] = -1
  }

  #trimHead(run: number, start: number): void {
    const { records } = this.#runs
    const record = run * RUN_STRIDE
    let at = records[record + START] as number
    if (at === start) return
    this.#blocks -= start - at
    let page = records[record + FIRST_PAGE] as number
    while (at < start) {
      const begin = (this.#arena.pages[page * PAGE_STRIDE + INDEX] as number) << PAGE_BITS
      const stop = Math.min(begin + PAGE_BLOCKS, start)
      this.#anchors.dropSlots(page, at - begin, stop - begin)
      at = stop
      if (stop === begin + PAGE_BLOCKS) {
        const next = this.#arena.pages[page * PAGE_STRIDE + NEXT] as number
        this.#arena.release(page)
        page = next
      }
    }
    records[record + START] = start
    records[record + FIRST_PAGE] = page
    this.#arena.pages[page * PAGE_STRIDE + PREVIOUS] = -1
    this.#addStart(run)
  }

  #free(run: number): void {
    this.#trimTail(run, this.#runs.records[run * RUN_STRIDE + START] as number)
    this.#runs.free(run)
  }
}
