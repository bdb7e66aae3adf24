/**
 * The effect of `stored` in one storage tier: walks the blocks that are present and adds the others.
 *
 * Decides whether new blocks go into a run or stay loose, and when loose blocks become a run (`RunWorth`). A stretch of
 * 7 to 27 blocks shares a page with others, unless more of it is predicted (`RunForecast`); a shorter one stays loose.
 * Loose blocks become a run when a walk, which knows their chain, finds that they are enough or shared by enough
 * holders. Invariant: an added block is not yet present, neither in a run nor loose.
 */
import type { HashPair } from '../hash/hash-pair.ts'
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import { LooseSuspects } from '../loose/loose-suspects.ts'
import { NEXT, PAGE_BITS, PAGE_MASK, PAGE_STRIDE } from '../arena/block-arena.ts'
import { LONG_RUN_MIN } from './run-blocks.ts'
import type { RunBlocks } from './run-blocks.ts'
import { LOOSE, NOWHERE } from './run-branches.ts'
import { RunForecast, STREAK_MIN } from './run-forecast.ts'
import type { RunHoldings } from './run-holdings.ts'
import { RunRelocation } from './run-relocation.ts'
import type { RunSearch } from './run-search.ts'
import { COUNT, DENSE, END, HOLDING, RUN_STRIDE, START, USED } from './run-store.ts'
import type { RunWorth } from './run-worth.ts'

/** A block with this many owners becomes a run on its own, because owners of a loose block are searched linearly. */
const OWNERS_MAX = 256

interface LooseOwners {
  readonly holders: readonly number[]
  /** Whether a run begins after the block. */
  readonly isFollowed: boolean
}

export class RunPlacement {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  readonly #search: RunSearch
  readonly #worth: RunWorth
  readonly #suspects: LooseSuspects
  readonly #relocation: RunRelocation
  /** Place of the block before the current one; and the current offset in its run, if it is in one. */
  #before = NOWHERE
  /** Its hash (signed halves), if it is loose. */
  #beforeLow = 0
  #beforeHigh = 0
  #run = -1
  #at = 0
  #end = 0
  #page = 0
  readonly forecast = new RunForecast()
  /** The hash of the parent, if the event names one. */
  #parent: HashPair | null = null

  constructor(
    blocks: RunBlocks,
    holdings: RunHoldings,
    loose: LooseBlocks,
    search: RunSearch,
    worth: RunWorth,
  ) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#loose = loose
    this.#search = search
    this.#worth = worth
    this.#suspects = new LooseSuspects(loose)
    this.#relocation = new RunRelocation(blocks, holdings)
  }

  /** Stores the blocks after the block at `before` (`NOWHERE`: they begin a chain, or an orphan's parent is unknown). */
  store(holder: number, hashes: Uint32Array, before: number, parent: HashPair | null): void {
    if (before >= 0 && this.#mayGrow(hashes, before) && !this.#suspects.hasAny(hashes)) {
      this.#grow(holder, hashes, before)
      return
    }
    this.#parent = parent
    this.#place(holder, hashes, before, parent !== null && before === NOWHERE)
  }

  /**
   * Fast path of `store` for most short events: appends to a run that only this holder has, at the end that its last
   * event left. False if this is not the case: nothing changed.
   */
  growTail(holder: number, parent: HashPair, hashes: Uint32Array): boolean {
    const before = this.#search.endOf(holder, parent[0] | 0, parent[1] | 0)
    const count = hashes.length >> 1
    const { anchors, arena, branches, runs } = this.#blocks
    if (before < 0 || count > arena.roomAfter(before)) return false
    const { records } = runs
    const run = arena.runOf(before)
    const record = run * RUN_STRIDE
    if (run < 0 || branches.mayFollow(before)) return false
    const end = arena.offsetOf(before) + 1
    if (
      records[record + END] !== end ||
      records[record + COUNT] !== 1 ||
      records[record + DENSE] !== 0
    ) {
      return false
    }
    const list = runs.holdings(run)
    const k = runs.firstHolding(run)
    if (list[k] !== holder || list[k + 1] !== end) return false
    if (this.#suspects.hasAny(hashes)) return false
    const blocks = arena.hashes
    for (let i = 0, at = 2 * before + 2; i < hashes.length; i++)
      blocks[at + i] = hashes[i] as number
    records[record + END] = end + count
    records[record + USED] = this.#loose.upkeep.tick
    list[k + 1] = end + count
    this.#blocks.count += count
    this.#blocks.added += count
    this.#holdings.count(holder, count)
    if (records[record + START] !== end - 1) anchors.drop(before)
    this.#search.moveEnd(holder, before + count)
    return true
  }

  #mayGrow(hashes: Uint32Array, before: number): boolean {
    const { arena } = this.#blocks
    if (!this.#blocks.isOpenEnd(before)) return false
    return this.#relocation.canGrow(arena.runOf(before), hashes.length >> 1)
  }

  /** Appends blocks to the end of a run, which is the most frequent case; nothing else can follow there. */
  #grow(holder: number, hashes: Uint32Array, before: number): void {
    const { arena, reader, runs } = this.#blocks
    const run = arena.runOf(before)
    const count = hashes.length >> 1
    this.#relocation.makeRoom(run, count)
    const end = runs.records[run * RUN_STRIDE + END] as number
    const last = reader.lastOf(run)
    runs.records[run * RUN_STRIDE + USED] = this.#loose.upkeep.tick
    this.#blocks.append(run, hashes, 0, count)
    this.#holdings.cover(run, holder, end, end + count)
    this.#holdings.dropEnd(run, end, last)
    this.#search.leaveEnd(holder, reader.lastOf(run), before)
  }

  #place(holder: number, hashes: Uint32Array, before: number, isOrphan: boolean): void {
    const count = hashes.length >> 1
    this.#suspects.look(hashes)
    this.#startAfter(before)
    for (let i = 0; i < count;) {
      i += this.#walkRun(holder, hashes, i)
      if (i === count) break
      const walked = this.#walkLoose(holder, hashes, i, isOrphan)
      if (walked > 0) {
        i += walked
        continue
      }
      if (this.#enterRun(hashes, i)) continue
      const stop = Math.min(
        this.#blocks.nextStart(hashes, i + 1),
        this.#suspects.next(hashes, i + 1),
      )
      const isAtEnd =
        this.#run >= 0 && this.#at === this.#end && this.#relocation.canGrow(this.#run, stop - i)
      const isLong = stop - i >= LONG_RUN_MIN || this.#isExpected(hashes, i)
      // A streak may end at any block, so its run begins small and grows.
      const isShort =
        !isLong &&
        this.#streakBefore(holder, hashes, i) < STREAK_MIN &&
        !this.#worth.isWorth(stop - i)
      // A valid chain has space for all its runs; an event from a faulty peer may need more, and its blocks stay
      // loose.
      if ((!isAtEnd && isShort) || !this.#blocks.hasPagesFor(stop - i)) {
        this.#addLoose(holder, hashes, i, stop)
      } else {
        if (isAtEnd) this.#makeRoom(stop - i)
        else this.#beginRun(isOrphan, isLong ? 0 : stop - i)
        this.#append(holder, hashes, i, stop)
      }
      i = stop
      // An event that names a block twice finds it present the second time, possibly loose.
      if (i < count) this.#suspects.look(hashes)
    }
    if (this.#before >= 0) this.#blocks.anchors.add(this.#before)
  }

  #startAfter(before: number): void {
    const { arena, runs } = this.#blocks
    this.#before = before
    if (before === LOOSE && this.#parent !== null) {
      this.#beforeLow = this.#parent[0] | 0
      this.#beforeHigh = this.#parent[1] | 0
    }
    this.#run = -1
    this.#at = 0
    this.#end = 0
    if (before < 0) return
    this.#run = arena.runOf(before)
    this.#at = arena.offsetOf(before) + 1
    this.#end = runs.records[this.#run * RUN_STRIDE + END] as number
    this.#page = before >> PAGE_BITS
    if ((this.#at & PAGE_MASK) === 0) {
      this.#page = arena.pages[this.#page * PAGE_STRIDE + NEXT] as number
    }
  }

  /** Walks along the current run; returns how many of its blocks the hashes match. */
  #walkRun(holder: number, hashes: Uint32Array, i: number): number {
    if (this.#at >= this.#end) return 0
    const { reader, runs } = this.#blocks
    const limit = Math.min(this.#end - this.#at, (hashes.length >> 1) - i)
    const equal = reader.match(this.#page, this.#at, limit, hashes, i)
    if (equal === 0) return 0
    runs.records[this.#run * RUN_STRIDE + USED] = this.#loose.upkeep.tick
    this.#holdings.cover(this.#run, holder, this.#at, this.#at + equal)
    this.#at += equal
    this.#page = reader.matchedPage
    this.#before = (this.#page << PAGE_BITS) + ((this.#at - 1) & PAGE_MASK)
    return equal
  }

  /** Switches to the run that begins with this hash, if there may be one. */
  #enterRun(hashes: Uint32Array, i: number): boolean {
    const { anchors, arena, branches, runs } = this.#blocks
    if (!branches.mayFollow(this.#before)) return false
    const low = (hashes[2 * i] as number) | 0
    const start = anchors.lookup(low, (hashes[2 * i + 1] as number) | 0)
    if (start < 0) return false
    this.#run = arena.runOf(start)
    this.#at = arena.offsetOf(start)
    this.#end = runs.records[this.#run * RUN_STRIDE + END] as number
    this.#page = start >> PAGE_BITS
    if (this.#before !== NOWHERE && branches.isDetached(this.#run)) this.#attach()
    return true
  }

  /** Begins a new run after the current place, for so many blocks or (0) many. */
  #beginRun(isOrphan: boolean, count: number): void {
    const { anchors, branches, mayShare, runs } = this.#blocks
    const isShared = mayShare && count > 0 && count < LONG_RUN_MIN
    this.#run = runs.create(this.#worth.isDense)
    this.#at = isShared ? this.#blocks.share(this.#run, count) : 0
    if (this.#before !== NOWHERE) this.#attach()
    else if (isOrphan) branches.detach(this.#run)
    // The holder's blocks of the previous run end there.
    if (this.#before >= 0) anchors.add(this.#before)
  }

  /** Links the new run to its predecessor. */
  #attach(): void {
    const { branches } = this.#blocks
    if (this.#before >= 0) {
      branches.attach(this.#run, this.#before)
      return
    }
    const [low, high] = [this.#beforeLow, this.#beforeHigh]
    if (!this.#loose.lookup(low, high)) return
    this.#loose.isFollowed = true
    branches.attachLoose(this.#run, low, high)
  }

  /** The current block is loose: the walk leaves the run. */
  #leaveRun(hashes: Uint32Array, i: number): void {
    this.#run = -1
    this.#at = 0
    this.#end = 0
    this.#before = LOOSE
    this.#beforeLow = (hashes[2 * i] as number) | 0
    this.#beforeHigh = (hashes[2 * i + 1] as number) | 0
  }

  /** The walk is at the end of a run that will grow. */
  #makeRoom(count: number): void {
    const { reader, runs } = this.#blocks
    this.#relocation.makeRoom(this.#run, count)
    this.#at = runs.records[this.#run * RUN_STRIDE + END] as number
    this.#end = this.#at
    this.#before = reader.lastOf(this.#run)
  }

  #append(holder: number, hashes: Uint32Array, from: number, to: number): void {
    this.#blocks.runs.records[this.#run * RUN_STRIDE + USED] = this.#loose.upkeep.tick
    this.#blocks.append(this.#run, hashes, from, to - from)
    this.#end = this.#at + to - from
    this.#holdings.cover(this.#run, holder, this.#at, this.#end)
    this.#at = this.#end
    this.#before = this.#blocks.reader.lastOf(this.#run)
  }

  #isExpected(hashes: Uint32Array, i: number): boolean {
    const low = (hashes[2 * i] as number) | 0
    return this.forecast.isExpected(low, (hashes[2 * i + 1] as number) | 0)
  }

  /** Number of loose blocks that the holder has appended without a break up to the block before `i`. */
  #streakBefore(holder: number, hashes: Uint32Array, i: number): number {
    if (this.#before >= NOWHERE) return 0
    const low = i > 0 ? hashes[2 * i - 2] : this.#parent?.[0]
    const high = i > 0 ? hashes[2 * i - 1] : this.#parent?.[1]
    if (low === undefined || high === undefined) return 0
    return this.forecast.streakTo(holder, low | 0, high | 0)
  }

  #addLoose(holder: number, hashes: Uint32Array, from: number, to: number): void {
    // The holder's blocks of the previous run end there.
    if (this.#before >= 0) this.#blocks.anchors.add(this.#before)
    const streak = this.#streakBefore(holder, hashes, from) + to - from
    this.#loose.add(hashes, from, to, holder)
    const low = (hashes[2 * to - 2] as number) | 0
    this.forecast.setStreak(holder, streak, low, (hashes[2 * to - 1] as number) | 0)
    this.#leaveRun(hashes, to - 1)
  }

  /** Walks loose blocks; returns how many of the hashes from `i` on are loose. */
  #walkLoose(holder: number, hashes: Uint32Array, i: number, isOrphan: boolean): number {
    if (this.#loose.count === 0) return 0
    const count = hashes.length >> 1
    let owners = 0
    let k = i
    for (; k < count; k++) {
      const low = (hashes[2 * k] as number) | 0
      if (!this.#loose.lookup(low, (hashes[2 * k + 1] as number) | 0)) break
      owners += this.#loose.hold(holder)
    }
    if (k === i) return 0
    if (this.#before >= 0) this.#blocks.anchors.add(this.#before)
    // An event of a single block does not know its chain; a query will.
    const isWorth = k - i > 1 ? this.#worth.isWorthMoving(k - i, owners) : owners >= OWNERS_MAX
    if (isWorth && this.#blocks.hasCapacity(hashes)) return this.#makeRun(hashes, i, k, isOrphan)
    this.#leaveRun(hashes, k - 1)
    return k - i
  }

  /** A query has matched the loose blocks `from` .. `to`, which follow the block at a place. */
  gather(hashes: Uint32Array, from: number, to: number, before: number): void {
    if (!this.#blocks.hasCapacity(hashes)) return
    this.#before = before
    this.#makeRun(hashes, from, to, false)
  }

  /** Converts loose blocks to a run after the current place; returns how many (a faulty peer may name one twice). */
  #makeRun(hashes: Uint32Array, from: number, to: number, isOrphan: boolean): number {
    const { anchors, branches, reader, runs } = this.#blocks
    this.#beginRun(isOrphan, to - from)
    const run = this.#run
    const owners = this.#takeLoose(hashes, from, to)
    const count = owners.length
    const start = this.#at
    this.#blocks.append(run, hashes, from, count)
    runs.records[run * RUN_STRIDE + USED] = this.#loose.upkeep.tick
    owners.forEach(({ holders, isFollowed }, i) => {
      const at = start + i
      for (const holder of holders) this.#holdings.cover(run, holder, at, at + 1)
      if (!isFollowed) return
      const low = (hashes[2 * (from + i)] as number) | 0
      const high = (hashes[2 * (from + i) + 1] as number) | 0
      branches.movedLoose(low, high, reader.positionNear(this.#firstPage(run), at))
    })
    const list = runs.holdings(run)
    let k = runs.firstHolding(run)
    const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
    let isWhole = true
    for (; k < last; k += HOLDING) {
      const held = list[k + 1] as number
      isWhole &&= held >= 0
      anchors.add(reader.positionNear(this.#firstPage(run), this.#holdings.highOf(held) - 1))
    }
    if (!isWhole) this.#holdings.densify(run)
    this.#at = start + count
    this.#end = this.#at
    this.#before = reader.lastOf(run)
    return count
  }

  /** Removes loose blocks from their table, up to the first one that is missing. */
  #takeLoose(hashes: Uint32Array, from: number, to: number): LooseOwners[] {
    const loose = this.#loose
    const taken: LooseOwners[] = []
    for (let i = from; i < to; i++) {
      if (!loose.lookup((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0)) break
      const { isFollowed } = loose
      taken.push({ holders: loose.holders(), isFollowed })
      if (isFollowed) loose.isFollowed = false
      loose.drop()
    }
    return taken
  }

  #firstPage(run: number): number {
    return this.#blocks.reader.firstOf(run) >> PAGE_BITS
  }
}
