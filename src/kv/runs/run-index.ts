/**
 * The event-driven index of one storage tier: chains of blocks as runs in typed arrays, and holdings as ends of runs.
 *
 * Owns `stored` and the walk of a query. A stored or removed stretch of blocks is one change of a holding, whatever
 * its length. There is no tree: a sequence hash identifies its whole prefix, so a query that reaches the end of a run
 * continues with one lookup of the next hash, and equality of the last hash of a page means equality of the page. The
 * data structures are drawn in `run-store.ts`.
 *
 * Invariants: a block is in at most one run. Its predecessor is the block before it in the run, unless it is the
 * first one. Every first block is anchored. Nothing is changed before the capacity for the whole event has been
 * checked.
 */
import { LooseBlocks } from '../loose/loose-blocks.ts'
import { AHEAD_MAX } from '../loose/loose-table.ts'
import { PAGE_BITS, PAGE_MASK } from '../arena/block-arena.ts'
import { DeferredRemovals } from './deferred-removals.ts'
import { RemovalPasses } from './removal-passes.ts'
import type { ApplyOutcome } from '../prefix/prefix-index.ts'
import type { PrefixMatches } from '../prefix/prefix-matches.ts'
import { LONG_RUN_MIN, RunBlocks } from './run-blocks.ts'
import { RunDissolution } from './run-dissolution.ts'
import { RunEviction } from './run-eviction.ts'
import { LOOSE, NOWHERE } from './run-branches.ts'
import { RunExtension } from './run-extension.ts'
import { RunLookAhead } from './run-look-ahead.ts'
import { RunHoldings } from './run-holdings.ts'
import { RunPlacement } from './run-placement.ts'
import { RunRelease } from './run-release.ts'
import { RunRemoval } from './run-removal.ts'
import { RunSearch } from './run-search.ts'
import { COUNT, END, HOLDING, RUN_STRIDE, USED } from './run-store.ts'
import { RunSweep } from './run-sweep.ts'
import { RunWorth } from './run-worth.ts'

export interface RunIndexOptions {
  /** Limit of distinct blocks in the tier, rounded up to pages. */
  readonly blocksMax: number
  /**
   * For the lower tiers, where chains need not begin at the start of a prompt: anchors every block and accepts stores
   * after an unknown parent. Otherwise only ends of holdings and points where queries left a run are anchored.
   */
  readonly hasOrphans: boolean
  /** Blocks that may be scanned in searches before runs are made dense, in addition to 16 per stored block. */
  readonly scanFreeBlocks?: number
  /** Blocks that a pass over deferred removals reads per event. */
  readonly passPartBlocks?: number
}

const SCAN_FREE_DEFAULT = 1 << 18

export class RunIndex {
  readonly parts: {
    readonly blocks: RunBlocks
    readonly holdings: RunHoldings
    readonly loose: LooseBlocks
    readonly deferred: DeferredRemovals
  }
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #hasOrphans: boolean
  readonly #search: RunSearch
  readonly #deferred: DeferredRemovals
  readonly #passes: RemovalPasses
  readonly #removal: RunRemoval
  readonly #dissolution: RunDissolution
  readonly lookAhead: RunLookAhead
  readonly #worth: RunWorth
  readonly release: RunRelease
  readonly #placement: RunPlacement
  readonly eviction: RunEviction
  /** Extends results, if this is a lower tier. */
  readonly extension: RunExtension
  readonly #loose: LooseBlocks
  /** Number of matching holders after `findLoose`. */
  #foundLoose = 0

  constructor(options: RunIndexOptions) {
    this.#blocks = new RunBlocks(options.blocksMax)
    this.#holdings = new RunHoldings(this.#blocks)
    const { branches } = this.#blocks
    this.#loose = new LooseBlocks(branches, options.blocksMax >> 1)
    const deferred = new DeferredRemovals(this.#holdings.holders)
    this.#deferred = deferred
    this.parts = { blocks: this.#blocks, holdings: this.#holdings, loose: this.#loose, deferred }
    this.#hasOrphans = options.hasOrphans
    const { scanFreeBlocks = SCAN_FREE_DEFAULT, passPartBlocks } = options
    const [blocks, holdings, loose] = [this.#blocks, this.#holdings, this.#loose]
    this.eviction = new RunEviction(blocks, holdings, loose)
    this.#search = new RunSearch(blocks, holdings, loose, scanFreeBlocks)
    this.#dissolution = new RunDissolution(blocks, holdings, loose)
    this.release = new RunRelease(blocks, holdings, this.#dissolution)
    this.lookAhead = new RunLookAhead(blocks, holdings, loose)
    const sweep = new RunSweep(blocks, holdings, this.#dissolution)
    this.#passes = new RemovalPasses(holdings, loose, sweep, deferred, passPartBlocks)
    this.#removal = new RunRemoval(
      blocks,
      holdings,
      loose,
      this.#search,
      this.#passes,
      this.lookAhead,
    )
    this.extension = new RunExtension(blocks, holdings, loose)
    this.#worth = new RunWorth(blocks, this.#search, this.#dissolution, options.hasOrphans)
    this.#placement = new RunPlacement(blocks, holdings, loose, this.#search, this.#worth)
  }

  get entries(): number {
    const waiting = this.#deferred.count - this.#passes.made
    return Math.max(0, this.#holdings.entries + this.#loose.entries - waiting)
  }

  get blocks(): number {
    return this.#blocks.count + this.#loose.count
  }

  get bytes(): number {
    return this.#blocks.bytes + this.#holdings.bytes + this.#loose.bytes + this.#deferred.bytes
  }

  /** `bytes` plus the growth that the present blocks may cause; without memory that is being returned. */
  get bytesNeeded(): number {
    const { isActive, bytesLeft } = this.release
    const others = this.#holdings.bytes + this.#loose.bytesNeeded + this.#deferred.bytes
    return others + (isActive ? bytesLeft : this.#blocks.bytesNeeded)
  }

  /** The part of `bytes` that can only be used by runs again. */
  get reusableBytes(): number {
    return this.eviction.reusableBytes
  }

  /** Number of searches that the anchors did not answer. */
  get scans(): number {
    return this.#search.scans
  }

  /** A small part of the work that waits for the next event, such as returning memory after a holder has left. */
  tend(): void {
    this.#loose.upkeep.tend()
    this.release.tend(this.#deferred.isInUse)
    this.#passes.advance(0)
  }

  /**
   * Makes the deferred removals if this takes less than a millisecond, for exact statistics. Otherwise each of them counts as
   * the removal of a block that the holder had.
   */
  settle(): void {
    this.#passes.settle()
  }

  /** Whether the holder has the block. */
  holds(holder: number, low: number, high: number): boolean {
    if (this.#deferred.has(holder, low | 0, high | 0)) return false
    this.#holdings.holders.reserve(holder)
    return this.#holdsAt(this.#search.locate(low | 0, high | 0, holder), holder)
  }

  store(
    holder: number,
    parent: readonly [number, number] | null,
    hashes: Uint32Array,
  ): ApplyOutcome {
    this.#holdings.holders.reserve(holder)
    this.#loose.upkeep.tick += 1
    this.#loose.upkeep.tend()
    this.release.tend(this.#deferred.isInUse)
    this.#passes.prepare()
    this.#passes.advance(0)
    if (parent !== null && this.#deferred.has(holder, parent[0] | 0, parent[1] | 0)) {
      return 'parent-not-found'
    }
    if (parent !== null && hashes.length > 0 && this.#placement.growTail(holder, parent, hashes)) {
      this.#passes.cancel(holder, hashes)
      this.#dissolution.stored(hashes.length >> 1)
      return 'applied'
    }
    let before = this.#find(parent, holder)
    if (parent !== null && !this.#hasOrphans && !this.#holdsAt(before, holder)) {
      return 'parent-not-found'
    }
    if (hashes.length === 0) return 'applied'
    if (!this.#blocks.mayFit(hashes)) return 'capacity-exhausted'
    if (before >= 0) {
      // Marks the run as used, so that the event's own run is not evicted.
      const { arena, runs } = this.#blocks
      runs.records[arena.runOf(before) * RUN_STRIDE + USED] = this.#loose.upkeep.tick
    }
    if (this.#makeSpace(hashes)) before = this.#find(parent, holder)
    if (parent !== null && !this.#hasOrphans && !this.#holdsAt(before, holder)) {
      return 'parent-not-found'
    }
    this.#passes.cancel(holder, hashes)
    this.#dissolution.stored(hashes.length >> 1)
    this.#placement.store(holder, hashes, before, parent)
    return 'applied'
  }

  #find(parent: readonly [number, number] | null, holder: number): number {
    return parent === null ? NOWHERE : this.#search.locate(parent[0] | 0, parent[1] | 0, holder)
  }

  /** Evicts the oldest runs until an event certainly fits; returns whether anything was evicted. */
  #makeSpace(hashes: Uint32Array): boolean {
    let hasGone = false
    while (!this.#blocks.hasCapacity(hashes) && this.eviction.evictRuns()) hasGone = true
    while (this.#loose.isFull && this.eviction.evictLoose()) hasGone = true
    return hasGone
  }

  #holdsAt(place: number, holder: number): boolean {
    if (place === NOWHERE) return false
    if (place === LOOSE) return this.#loose.has(holder)
    const { arena } = this.#blocks
    return this.#holdings.has(arena.runOf(place), holder, arena.offsetOf(place))
  }

  /**
   * Removes blocks, one each of some holders; overwrites the arrays. Deferred removals are the fastest, then loose blocks,
   * which are prefetched together.
   */
  removeEach(holders: Int32Array, hashes: Uint32Array, count: number): void {
    // Not between two removals, because it moves blocks.
    this.release.tend(this.#deferred.isInUse)
    this.#passes.advance(count)
    let seen = 0
    for (let i = 0; i < count; i++) {
      const holder = holders[i] as number
      const low = hashes[2 * i] as number
      const high = hashes[2 * i + 1] as number
      if (this.#passes.deferUnseen(holder, low | 0, high | 0)) continue
      holders[seen] = holder
      hashes[2 * seen] = low
      hashes[2 * seen + 1] = high
      seen += 1
    }
    if (seen > 1) this.lookAhead.touch(hashes, 0, seen)
    for (let i = 0; i < seen; i++) {
      const holder = holders[i] as number
      this.#holdings.holders.reserve(holder)
      const low = (hashes[2 * i] as number) | 0
      this.#removal.removeOne(holder, low, (hashes[2 * i + 1] as number) | 0)
    }
  }

  /** Defers the removal of a block (signed halves) without a look-up, if that is cheaper; false if not. */
  defer(holder: number, low: number, high: number): boolean {
    if (!this.#passes.deferUnseen(holder, low, high)) return false
    this.#passes.advance(1)
    return true
  }

  /** Removes the blocks that the holder has. */
  remove(holder: number, hashes: Uint32Array): void {
    this.#holdings.holders.reserve(holder)
    this.release.tend(this.#deferred.isInUse)
    this.#passes.advance(hashes.length >> 1)
    this.#removal.remove(holder, hashes)
    this.#deferred.prepare()
  }

  removeHolder(holder: number): void {
    this.#holdings.holders.reserve(holder)
    this.#passes.removeHolder(holder)
    this.#holdings.removeHolder(holder)
    this.#loose.removeHolder(holder)
  }

  /** Sets `matches.device`; the caller has cleared `matches`. */
  find(hashes: Uint32Array, matches: PrefixMatches): void {
    matches.reserve(this.#holdings.holders.holderCount)
    const { anchors, arena, branches, reader, runs } = this.#blocks
    const count = hashes.length >> 1
    const { device, holders } = matches
    let found = 0
    let before = NOWHERE
    let i = 0
    while (i < count) {
      const low = (hashes[2 * i] as number) | 0
      const high = (hashes[2 * i + 1] as number) | 0
      const position = anchors.lookup(low, high)
      if (position < 0) {
        const walked =
          this.#loose.count === 0 ? 0 : this.#findLoose(hashes, i, matches, found, before)
        if (walked === 0) break
        found = this.#foundLoose
        i += walked
        if (this.#loose.isHeld) continue
        break
      }
      const run = arena.runOf(position)
      runs.records[run * RUN_STRIDE + USED] = this.#loose.upkeep.tick
      const at = arena.offsetOf(position)
      const end = runs.records[run * RUN_STRIDE + END] as number
      const limit = Math.min(end - at, count - i)
      const stop = at + reader.match(position >> PAGE_BITS, at, limit, hashes, i)
      const list = runs.holdings(run)
      let k = runs.firstHolding(run)
      const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
      const shift = at - i
      let isHeld = false
      for (; k < last; k += HOLDING) {
        const holder = list[k] as number
        if (i > 0 && device[holder] !== i) continue
        let to = list[k + 1] as number
        if (to < 0) to = this.#holdings.endOf(to, at)
        if (to <= at) continue
        if (i === 0) holders[found++] = holder
        device[holder] = (to < stop ? to : stop) - shift
        isHeld = true
      }
      i = stop - shift
      if (stop < end) {
        before = (reader.matchedPage << PAGE_BITS) + ((stop - 1) & PAGE_MASK)
        // The next store of this prompt will name this block as its parent.
        anchors.add(before)
        if (this.#loose.count === 0 && !branches.mayFollow(before)) break
      } else if (i < count) before = reader.lastOf(run)
      if (!isHeld) break
    }
    if (count - i >= LONG_RUN_MIN) {
      const low = (hashes[2 * i] as number) | 0
      this.#placement.forecast.expect(low, (hashes[2 * i + 1] as number) | 0)
    }
    matches.count = found
    if (this.#deferred.count > 0) this.#deferred.shorten(hashes, i, matches)
  }

  /** Like `find`, for loose blocks from `i` on; returns how many were matched. Long or shared chains become a run. */
  #findLoose(
    hashes: Uint32Array,
    i: number,
    matches: PrefixMatches,
    found: number,
    before: number,
  ): number {
    const loose = this.#loose
    const count = hashes.length >> 1
    // Once memory has been short, queried blocks are kept longer than others.
    const isRenewed = this.eviction.given > 0
    let owners = 0
    let k = i
    if (count - i > 1) loose.prefetch(hashes, i, Math.min(count, i + AHEAD_MAX))
    for (loose.isHeld = true; k < count && loose.isHeld; k++) {
      const low = (hashes[2 * k] as number) | 0
      if (!loose.lookup(low, (hashes[2 * k + 1] as number) | 0)) break
      found = loose.match(k, matches, found)
      // Its owners lack the prefix, so they are no reason for a run.
      if (!loose.isHeld) continue
      owners += loose.ownerCount
      if (isRenewed) loose.upkeep.renew()
      else if (loose.areOwnersInWord && k + 1 < count) {
        const stop = loose.walkSame(hashes, k + 1, matches)
        owners += loose.ownerCount * (stop - k - 1)
        k = stop - 1
      }
    }
    this.#foundLoose = found
    // The last one may have no owner; a run must end with a block that has one.
    const end = loose.isHeld ? k : k - 1
    if (this.#worth.isWorthMoving(end - i, owners) && !this.#dissolution.isResting)
      this.#placement.gather(hashes, i, end, before)
    return k - i
  }
}
