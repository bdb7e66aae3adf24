/**
 * The event-driven index of one storage tier: chains of blocks as runs on typed arrays, holdings as ends of runs.
 *
 * Owns: what `stored` does, and the walk of a query. A stored or removed stretch is one change of a
 * holding, whatever its length. There is no tree: a sequence hash names its whole prefix, so a query that leaves a
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
import { RunRemoval } from './run-removal.ts'
import { RunSearch } from './run-search.ts'
import { COUNT, END, HOLDING, RUN_STRIDE } from './run-store.ts'

export interface RunIndexOptions {
  /** Different blocks that the tier can hold, rounded up to pages. */
  readonly blocksMax: number
  /**
   * Anchors every block and takes stores after a parent that is not known: for the lower tiers, where chains need not
   * begin at the root. Otherwise only ends of holdings and points where queries left a run are anchored.
   */
  readonly hasOrphans: boolean
  /** Blocks that may be looked through before runs are made dense, besides 16 for each stored block. */
  readonly scanFreeBlocks?: number
}

const SCAN_FREE_DEFAULT = 1 << 18

export class RunIndex {
  readonly parts: { readonly blocks: RunBlocks; readonly holdings: RunHoldings }
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #hasOrphans: boolean
  readonly #search: RunSearch
  readonly #removal: RunRemoval

  constructor(options: RunIndexOptions) {
    this.#blocks = new RunBlocks(options.blocksMax)
    this.#holdings = new RunHoldings(this.#blocks)
    this.parts = { blocks: this.#blocks, holdings: this.#holdings }
    this.#hasOrphans = options.hasOrphans
    const { scanFreeBlocks = SCAN_FREE_DEFAULT } = options
    this.#search = new RunSearch(this.#blocks, this.#holdings, scanFreeBlocks)
    this.#removal = new RunRemoval(this.#blocks, this.#holdings, this.#search)
  }

  get entries(): number {
    return this.#holdings.entries
  }

  get blocks(): number {
    return this.#blocks.count
  }

  get bytes(): number {
    return this.#blocks.bytes + this.#holdings.bytes
  }

  /** Searches that the anchors did not answer. */
  get scans(): number {
    return this.#search.scans
  }

  /** Whether the holder has the block. */
  holds(holder: number, low: number, high: number): boolean {
    this.#holdings.holders.reserve(holder)
    return this.#holdsAt(this.#search.locate(low | 0, high | 0, holder), holder)
  }

  store(
    holder: number,
    parent: readonly [number, number] | null,
    hashes: Uint32Array,
  ): ApplyOutcome {
    this.#holdings.holders.reserve(holder)
    const before = parent === null ? -1 : this.#search.locate(parent[0] | 0, parent[1] | 0, holder)
    if (parent !== null && !this.#hasOrphans && !this.#holdsAt(before, holder)) {
      return 'parent-not-found'
    }
    if (hashes.length === 0) return 'applied'
    if (!this.#blocks.hasRoom(hashes)) return 'capacity-exhausted'
    if (before >= 0 && this.#blocks.isOpenEnd(before)) this.#grow(holder, hashes, before)
    else this.#place(holder, hashes, before, parent !== null && before < 0)
    return 'applied'
  }

  #holdsAt(position: number, holder: number): boolean {
    if (position < 0) return false
    const { arena } = this.#blocks
    return this.#holdings.has(arena.runOf(position), holder, arena.offsetOf(position))
  }

  /** Adds blocks after the last one of a run, which is what most events are about: nothing else can follow there. */
  #grow(holder: number, hashes: Uint32Array, before: number): void {
    const { arena, reader, runs } = this.#blocks
    const run = arena.runOf(before)
    const end = runs.records[run * RUN_STRIDE + END] as number
    const count = hashes.length >> 1
    this.#blocks.append(run, hashes, 0, count)
    this.#holdings.cover(run, holder, end, end + count)
    this.#holdings.dropEnd(run, end, before)
    this.#search.leaveEnd(holder, reader.lastOf(run), before)
  }

  /** Walks and adds the blocks that follow the one at a position (-1: none, or, of an orphan, one that is not known). */
  #place(holder: number, hashes: Uint32Array, before: number, isOrphan: boolean): void {
    const { anchors, arena, branches, reader, runs } = this.#blocks
    const count = hashes.length >> 1
    let run = -1
    let at = 0
    let end = 0
    let page = before >> PAGE_BITS
    if (before >= 0) {
      run = arena.runOf(before)
      at = arena.offsetOf(before) + 1
      end = runs.records[run * RUN_STRIDE + END] as number
      if ((at & PAGE_MASK) === 0) page = arena.pages[page * PAGE_STRIDE + NEXT] as number
    }
    for (let i = 0; i < count;) {
      if (at < end) {
        const equal = reader.match(page, at, Math.min(end - at, count - i), hashes, i)
        if (equal > 0) {
          this.#holdings.cover(run, holder, at, at + equal)
          i += equal
          at += equal
          before = (reader.matchedPage << PAGE_BITS) + ((at - 1) & PAGE_MASK)
          page = reader.matchedPage
          if (i === count) break
        }
      }
      if (branches.mayFollow(before)) {
        const start = anchors.lookup(
          (hashes[2 * i] as number) | 0,
          (hashes[2 * i + 1] as number) | 0,
        )
        if (start >= 0) {
          run = arena.runOf(start)
          at = arena.offsetOf(start)
          end = runs.records[run * RUN_STRIDE + END] as number
          page = start >> PAGE_BITS
          if (before >= 0 && branches.isDetached(run)) branches.attach(run, before)
          continue
        }
      }
      if (run < 0 || at < end) {
        run = runs.create(this.#hasOrphans || this.#search.isTooMuch)
        at = 0
        if (before >= 0) {
          branches.attach(run, before)
          // What the holder has of the run before ends there.
          anchors.add(before)
        } else if (isOrphan) branches.detach(run)
      }
      const stop = this.#blocks.nextStart(hashes, i + 1)
      this.#blocks.append(run, hashes, i, stop - i)
      end = at + stop - i
      this.#holdings.cover(run, holder, at, end)
      at = end
      i = stop
      before = reader.lastOf(run)
    }
    anchors.add(before)
  }

  /** 'block-not-found' when some hash was not held; the others are removed all the same. */
  remove(holder: number, hashes: Uint32Array): ApplyOutcome {
    this.#holdings.holders.reserve(holder)
    return this.#removal.remove(holder, hashes) === 0 ? 'applied' : 'block-not-found'
  }

  removeHolder(holder: number): void {
    this.#holdings.holders.reserve(holder)
    this.#holdings.removeHolder(holder)
  }

  /** Sets `matches.device`; the caller has cleared `matches`. */
  find(hashes: Uint32Array, matches: PrefixMatches): void {
    matches.reserve(this.#holdings.holders.holderCount)
    const { anchors, arena, branches, reader, runs } = this.#blocks
    const count = hashes.length >> 1
    const { device, holders } = matches
    let found = 0
    for (let i = 0; i < count;) {
      const position = anchors.lookup(
        (hashes[2 * i] as number) | 0,
        (hashes[2 * i + 1] as number) | 0,
      )
      if (position < 0) break
      const run = arena.runOf(position)
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
        const before = (reader.matchedPage << PAGE_BITS) + ((stop - 1) & PAGE_MASK)
        // The next store of this prompt will name the block before the point where it left the run.
        anchors.add(before)
        if (!branches.mayFollow(before)) break
      }
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
    const { anchors, arena, reader, runs } = this.#blocks
    const count = hashes.length >> 1
    const { device } = matches
    for (let i = 0; i < count;) {
      const position = anchors.lookup(
        (hashes[2 * i] as number) | 0,
        (hashes[2 * i + 1] as number) | 0,
      )
      if (position < 0) {
        i += 1
        continue
      }
      const run = arena.runOf(position)
      const at = arena.offsetOf(position)
      const limit = Math.min((runs.records[run * RUN_STRIDE + END] as number) - at, count - i)
      const stop = at + reader.match(position >> PAGE_BITS, at, limit, hashes, i)
      const shift = at - i
      const list = runs.holdings(run)
      let k = runs.firstHolding(run)
      const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
      for (; k < last; k += HOLDING) {
        const holder = list[k] as number
        const above = (device[holder] as number) + (upper === null ? 0 : (upper[holder] as number))
        const reached = above + (own[holder] as number)
        if (reached < i || reached + shift >= stop) continue
        const to = Math.min(this.#holdings.endOf(list[k + 1] as number, reached + shift), stop)
        if (to - shift === reached) continue
        if (reached === 0) matches.add(holder)
        own[holder] = to - shift - above
      }
      i = stop - shift
    }
  }
}
