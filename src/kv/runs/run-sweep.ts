/**
 * Makes the deferred removals of a holder, in one pass over its runs.
 *
 * A pass reads the blocks of the holder's runs one after the other, which the processor prefetches, and looks each up in a
 * table of the removed hashes that fits into its cache. A pass usually removes three quarters of the blocks. A run of which few
 * blocks are left is dissolved.
 */
import { BLOCK_BYTES } from '../loose/loose-blocks.ts'
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import { NEXT, PAGE_BITS, PAGE_MASK, PAGE_STRIDE } from './block-arena.ts'
import type { Deferred, DeferredRemovals } from './deferred-removals.ts'
import { LONG_RUN_MIN } from './run-blocks.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunDissolution } from './run-dissolution.ts'
import type { RunHoldings } from './run-holdings.ts'
import { COUNT, FIRST_PAGE, HOLDING, RUN_STRIDE, START } from './run-store.ts'
import { grown } from '../words/grown.ts'
import { WantedHashes } from '../words/wanted-hashes.ts'

/** A run with more holders is not dissolved: a query would visit all of them for every block. */
const HOLDERS_MAX = 8
/** After so many removals that had to be searched for, the next ones are not looked up. */
const MISSES_MIN = 8
/** Blocks that are read for statistics, about half a millisecond. */
const SWEPT_MAX = 1 << 17
/** Blocks that are looked up together, and of how many runs at most (less one). */
const GATHERED = 512
const SEGMENT_MASK = 127
/** Times the memory of loose blocks that a run may take. */
const WASTE = 6

export class RunSweep {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  readonly #dissolution: RunDissolution
  readonly #deferred: DeferredRemovals
  readonly #wanted = new WantedHashes()
  /** The gathered blocks: their offsets in their runs, their positions, and whether they are removed. */
  #offsets = new Int32Array(GATHERED)
  #positions = new Int32Array(GATHERED)
  #isTaken = new Uint8Array(GATHERED)
  #count = 0
  /** By run of the gathered blocks: where they end. */
  readonly #ends = new Int32Array(SEGMENT_MASK + 1)

  constructor(
    blocks: RunBlocks,
    holdings: RunHoldings,
    loose: LooseBlocks,
    dissolution: RunDissolution,
    deferred: DeferredRemovals,
  ) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#loose = loose
    this.#dissolution = dissolution
    this.#deferred = deferred
  }

  /**
   * Removes a block later (signed halves) that the holder may have in one of its runs. True if it is time for a pass
   * (`makeDeferred`), which moves blocks: not before all blocks of an event have been looked up and deferred.
   */
  defer(holder: number, low: number, high: number): boolean {
    // Every block of a dense run is anchored.
    if (this.#holdings.holders.sparseCount(holder) === 0) return false
    const deferred = this.#deferred
    // Not estimated: if it were too high, a pass would never be due.
    const own = deferred.of(holder) ?? deferred.begin(holder, this.#holdings.entriesOf(holder))
    own.misses += 1
    return deferred.add(holder, own, low, high)
  }

  /** Makes the deferred removals of a holder. */
  makeDeferred(holder: number): void {
    const own = this.#deferred.of(holder)
    if (own !== undefined) this.#sweep(holder, own)
  }

  /**
   * Like `defer`, for a block that has not been looked up, if the last blocks of this holder had to be searched for: then
   * it evicts in no order, and a look-up would probably be in vain. False if not: nothing is deferred.
   */
  deferUnseen(holder: number, low: number, high: number): boolean {
    if (this.#deferred.count === 0) return false
    const own = this.#deferred.of(holder)
    if (own === undefined || own.misses < MISSES_MIN || own.isLoose) return false
    if (this.#deferred.add(holder, own, low, high)) this.#sweep(holder, own)
    return true
  }

  /** Blocks of the holder have been removed that did not have to be searched for, so many of them from runs. */
  found(holder: number, blocks: number): void {
    const own = this.#deferred.of(holder)
    if (own === undefined) return
    own.misses = 0
    own.blocks = Math.max(0, own.blocks - blocks)
  }

  /** Prepares for queries, and makes the removals of one holder if queries have checked enough blocks because of them. */
  tend(): void {
    if (this.#deferred.count === 0) return
    this.#deferred.prepare()
    const holder = this.#deferred.due()
    if (holder >= 0) this.makeDeferred(holder)
  }

  /** Makes all deferred removals, if the holders' runs have few blocks in total. */
  sweepAll(): void {
    const deferred = this.#deferred
    if (deferred.count === 0) return
    const { holders } = deferred
    const blocks = holders.reduce((sum, holder) => sum + (deferred.of(holder)?.blocks ?? 0), 0)
    if (blocks > SWEPT_MAX) return
    for (const holder of holders) this.makeDeferred(holder)
  }

  #sweep(holder: number, own: Deferred): void {
    const wanted = this.#wanted
    wanted.resetWithFilter(own.words, 0, own.count)
    const { list: all, first, count } = this.#holdings.holders.of(holder)
    // A copy, because the list changes with each run that goes.
    const runs = all.slice(first, first + count)
    let blocks = 0
    for (let i = 0; i < runs.length;) {
      const next = this.#gather(holder, runs, i)
      wanted.takeEach(this.#blocks.arena.words, this.#positions, this.#count, this.#isTaken)
      for (let from = 0; i < next; i++) {
        const to = this.#ends[i & SEGMENT_MASK] as number
        blocks += this.#sweepRun(holder, runs[i] as number, from, to)
        from = to
      }
    }
    this.#dissolution.flush()
    if (wanted.left > 0) this.#removeLoose(holder, own)
    this.#deferred.done(holder, blocks, this.#loose.entriesOf(holder))
  }

  /** Removes the wanted blocks that have become loose; overwrites the list. */
  #removeLoose(holder: number, own: Deferred): void {
    const { count, words } = own
    let left = 0
    for (let i = 0; i < 2 * count; i += 2) {
      const low = words[i] as number
      const high = words[i + 1] as number
      if (!this.#wanted.take(low, high)) continue
      words[2 * left] = low
      words[2 * left + 1] = high
      left += 1
    }
    const hashes = new Uint32Array(words.buffer, 0, 2 * left)
    // A block that it does not have ends a removal, and is skipped.
    for (let i = 0; i < left; i++) i = this.#loose.remove(holder, hashes, i)
  }

  /** Gathers the holder's blocks of some runs from run number `i` on; returns the number after the last one. */
  #gather(holder: number, all: Int32Array, i: number): number {
    const { arena, runs } = this.#blocks
    const { pages } = arena
    const stop = Math.min(all.length, (i | SEGMENT_MASK) + 1)
    let count = 0
    for (; i < stop && count < GATHERED; i++) {
      const run = all[i] as number
      const record = run * RUN_STRIDE
      this.#reserve(count + runs.length(run))
      const offsets = this.#offsets
      const positions = this.#positions
      const held = runs.holdings(run)[runs.holdingOf(run, holder) + 1] as number
      const to = this.#holdings.offsetsOf(run, held, offsets, count)
      let index = (runs.records[record + START] as number) >> PAGE_BITS
      let page = runs.records[record + FIRST_PAGE] as number
      for (; count < to; count++) {
        const at = offsets[count] as number
        for (; at >> PAGE_BITS !== index; index++) page = pages[page * PAGE_STRIDE + NEXT] as number
        positions[count] = (page << PAGE_BITS) + (at & PAGE_MASK)
      }
      this.#ends[i & SEGMENT_MASK] = count
    }
    this.#count = count
    return i
  }

  #reserve(length: number): void {
    if (this.#offsets.length >= length) return
    this.#offsets = grown(this.#offsets, 2 * length)
    this.#positions = grown(this.#positions, 2 * length)
    this.#isTaken = new Uint8Array(2 * length)
  }

  /**
   * Removes the blocks of a run that have been taken of the gathered ones `from` .. `to`, which are the holder's; returns the
   * number of blocks that it has in runs afterwards.
   */
  #sweepRun(holder: number, run: number, from: number, to: number): number {
    const { runs } = this.#blocks
    const offsets = this.#offsets
    const positions = this.#positions
    let kept = from
    for (let i = from; i < to; i++) {
      offsets[kept] = offsets[i] as number
      positions[kept] = positions[i] as number
      kept += 1 ^ (this.#isTaken[i] as number)
    }
    const left = kept - from
    if (kept === to) return left
    const isOnly = runs.records[run * RUN_STRIDE + COUNT] === 1
    if (isOnly && !this.#isShort(run) && this.#isWasteful(run, left)) {
      let head = 0
      const start = runs.records[run * RUN_STRIDE + START] as number
      while (head < left && offsets[from + head] === start + head) head += 1
      if (this.#dissolution.take(run, holder, head, positions, from, kept)) return 0
    }
    this.#holdings.keepEach(run, holder, runs.holdingOf(run, holder), offsets, from, kept)
    if (left === 0 || runs.isFree(run) || this.#isShort(run)) return left
    if (!this.#isWasteful(run, this.#pairsOf(run))) return left
    this.#dissolution.dissolve(run)
    return 0
  }

  /** Number of (holder, block) pairs of a run; without limit if it has too many holders to be dissolved. */
  #pairsOf(run: number): number {
    const { runs } = this.#blocks
    const holders = runs.records[run * RUN_STRIDE + COUNT] as number
    if (holders > HOLDERS_MAX) return Infinity
    const list = runs.holdings(run)
    const first = runs.firstHolding(run)
    let pairs = 0
    for (let k = first; k < first + HOLDING * holders; k += HOLDING) {
      pairs += this.#holdings.countOf(run, list[k + 1] as number)
    }
    return pairs
  }

  /**
   * Short runs stay until their memory is wanted (`RunRelease`): converting each of them would take longer than the rest of
   * the pass.
   */
  #isShort(run: number): boolean {
    return this.#blocks.runs.length(run) < LONG_RUN_MIN
  }

  /** Whether so many (holder, block) pairs would take much less memory as loose blocks than their run does. */
  #isWasteful(run: number, pairs: number): boolean {
    return WASTE * BLOCK_BYTES * pairs < this.#blocks.bytesOf(run)
  }
}
