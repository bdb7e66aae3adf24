/**
 * The records of runs, and the list of holdings of each run.
 *
 * A run is a stretch of consecutive blocks of one chain, at offsets [start, end) of its pages. A holding is two
 * words: the holder, and the end offset of its blocks, which begin at `start`; or, negative, the complement (~) of
 * the number of a block set in `BlockSets`. Three holdings are in the record itself, more are in a pooled array,
 * always contiguous, so that a query reads them in one sweep. A list that is too long for linear search has a table
 * beside it (`HolderPlaces`). The number of records is bounded (`RunBlocks.mayShare`; other runs need a page at least)
 * and they are reserved at once.
 *
 *   hash ─▶ AnchorTable ─▶ position = page * 64 + slot        hash ─▶ LooseTable ─▶ segment, bucket, row
 *                              │                                                       │
 *   BlockArena   hashes   │ lo hi │ lo hi │ … 64            LooseRows   │ lo hi word │ lo hi word │ … 5 per bucket
 *                pages    │ run or shares, next previous index │               └▶ Tenancies ─▶ holder
 *                marks    │ anchored, branched: a bit for each block │
 *                             ▼
 *   RunStore     record   │ pages, start, end, count, list, dense, parent, used, 3 × (holder, end) │
 *                             └▶ more of them in a WordPool, with HolderPlaces if there are very many
 *                                (holder, ~set) ─▶ BlockSets: a bit for each block of the run
 *   HolderRuns   holder ─▶ its runs                 RunBranches   place ─▶ the runs that begin after it
 *
 * Invariant: a holder has at most one holding in a run.
 */
import { HolderPlaces } from '../words/holder-places.ts'
import { WordPool } from '../words/word-pool.ts'

export const RUN_STRIDE = 16
export const FIRST_PAGE = 0
export const LAST_PAGE = 1
export const START = 2
export const END = 3
export const COUNT = 4
/** 0 if the holdings are inline, otherwise log2 of the capacity of their array in the pool. */
const SIZE_CLASS = 5
/** Address of that array in the pool: chunk and offset. */
const POOL_AT = 6
/** -1: the record is free; 0: only some blocks are anchored; 1: all are. */
export const DENSE = 7
/**
 * Position + 1 of the block before the first one; 0: the run begins a chain; -1: detached; lower: after a loose
 * block.
 */
export const PARENT = 8
/** Tick (number of events of the index) at which the run was last queried or stored. */
export const USED = 9
const INLINE = 10
const INLINE_MAX = 3
const POOLED_CLASS_MIN = 3
/** log2 of the list capacity from which on a `HolderPlaces` table is used; it is dropped again at half of that. */
const PLACED_CLASS = 7

export const HOLDING = 2

/** From this many words on a native copy is faster than a loop. */
const NATIVE_MIN = 64

/** With fewer touched records the array is not reserved anew. */
const CLEARED_RUNS_MIN = 256

export class RunStore {
  records: Int32Array
  readonly #words: number
  readonly #pool = new WordPool()
  /** By run, for runs with very many holdings. */
  readonly #places = new Map<number, HolderPlaces>()
  #top = 0
  #free = -1
  #live = 0

  constructor(runsMax: number) {
    this.#words = RUN_STRIDE * runsMax
    this.records = new Int32Array(this.#words)
  }

  get live(): number {
    return this.#live
  }

  /** Runs 0 .. top-1 exist or are free. */
  get top(): number {
    return this.#top
  }

  /** Touched memory of the records, in bytes. */
  get recordBytes(): number {
    return 4 * RUN_STRIDE * this.#top
  }

  /** Whether a run has so many holders that their places are in a table. */
  get hasCrowded(): boolean {
    return this.#places.size > 0
  }

  get bytes(): number {
    let placeBytes = 0
    for (const places of this.#places.values()) placeBytes += places.bytes
    return this.recordBytes + this.#pool.bytes + placeBytes
  }

  /** Creates a run without blocks and holders; the caller has checked that there is a page for it. */
  create(isDense: boolean): number {
    if (this.records.length === 0) this.records = new Int32Array(this.#words)
    const { records } = this
    let run = this.#free
    if (run >= 0) this.#free = records[run * RUN_STRIDE] as number
    else run = this.#top++
    const at = run * RUN_STRIDE
    records[at + FIRST_PAGE] = -1
    records[at + LAST_PAGE] = -1
    records[at + START] = 0
    records[at + END] = 0
    records[at + COUNT] = 0
    records[at + SIZE_CLASS] = 0
    records[at + DENSE] = isDense ? 1 : 0
    records[at + PARENT] = 0
    records[at + USED] = 0
    this.#live += 1
    return run
  }

  /** Releases all memory, if there is no run and much memory; the next run reserves it again (see `BlockArena.clear`). */
  clear(): void {
    if (this.#live > 0 || this.#top < CLEARED_RUNS_MIN) return
    this.records = new Int32Array(0)
    this.#top = 0
    this.#free = -1
  }

  /** Frees a run that has no pages and holdings any more. */
  free(run: number): void {
    const at = run * RUN_STRIDE
    this.records[at] = this.#free
    this.records[at + DENSE] = -1
    this.#free = run
    this.#live -= 1
  }

  /** Number of blocks from the first to the last. */
  length(run: number): number {
    const at = run * RUN_STRIDE
    return (this.records[at + END] as number) - (this.records[at + START] as number)
  }

  /** Whether a run has been freed, and possibly `clear` has been called since. */
  isFree(run: number): boolean {
    return run >= this.#top || this.records[run * RUN_STRIDE + DENSE] === -1
  }

  /** The array that contains the holdings of a run; read it again after `add` and `remove`. */
  holdings(run: number): Int32Array {
    const at = run * RUN_STRIDE
    return this.records[at + SIZE_CLASS] === 0
      ? this.records
      : this.#pool.chunkOf(this.records[at + POOL_AT] as number)
  }

  /** Index in `holdings(run)` at which they begin. */
  firstHolding(run: number): number {
    const at = run * RUN_STRIDE
    return this.records[at + SIZE_CLASS] === 0
      ? at + INLINE
      : this.#pool.offsetOf(this.records[at + POOL_AT] as number)
  }

  /** Index of a holder's holding in `holdings(run)`, or -1. */
  holdingOf(run: number, holder: number): number {
    if ((this.records[run * RUN_STRIDE + SIZE_CLASS] as number) >= PLACED_CLASS) {
      const place = this.#placesOf(run).get(holder)
      return place < 0 ? -1 : this.firstHolding(run) + HOLDING * place
    }
    const list = this.holdings(run)
    let k = this.firstHolding(run)
    const end = k + HOLDING * (this.records[run * RUN_STRIDE + COUNT] as number)
    for (; k < end; k += HOLDING) if (list[k] === holder) return k
    return -1
  }

  add(run: number, holder: number, to: number): void {
    const at = run * RUN_STRIDE
    const count = this.records[at + COUNT] as number
    const sizeClass = this.records[at + SIZE_CLASS] as number
    if (sizeClass === 0 ? count === INLINE_MAX : count === 1 << sizeClass) {
      this.#move(run, sizeClass === 0 ? POOLED_CLASS_MIN : sizeClass + 1)
    }
    const list = this.holdings(run)
    const k = this.firstHolding(run) + HOLDING * count
    list[k] = holder
    list[k + 1] = to
    this.records[at + COUNT] = count + 1
    if ((this.records[at + SIZE_CLASS] as number) >= PLACED_CLASS) {
      this.#placesOf(run).set(holder, count)
    }
  }

  #placesOf(run: number): HolderPlaces {
    return this.#places.get(run) as HolderPlaces
  }

  /** Removes the holding at an index of `holdings(run)`; the last one is moved to its place. */
  remove(run: number, index: number): void {
    const at = run * RUN_STRIDE
    const list = this.holdings(run)
    const count = (this.records[at + COUNT] as number) - 1
    const last = this.firstHolding(run) + HOLDING * count
    if ((this.records[at + SIZE_CLASS] as number) >= PLACED_CLASS) {
      const places = this.#placesOf(run)
      places.delete(list[index] as number)
      if (index !== last) {
        places.set(list[last] as number, (index - this.firstHolding(run)) / HOLDING)
      }
    }
    list[index] = list[last] as number
    list[index + 1] = list[last + 1] as number
    this.records[at + COUNT] = count
    const sizeClass = this.records[at + SIZE_CLASS] as number
    if (sizeClass === 0) return
    if (count < INLINE_MAX) this.#move(run, 0)
    else if (sizeClass > POOLED_CLASS_MIN && count < 1 << (sizeClass - 2)) {
      this.#move(run, sizeClass - 1)
    }
  }

  /** Moves the holdings of a run to an array of another size class (0: inline). */
  #move(run: number, sizeClass: number): void {
    const at = run * RUN_STRIDE
    const oldClass = this.records[at + SIZE_CLASS] as number
    const oldAt = this.records[at + POOL_AT] as number
    const count = this.records[at + COUNT] as number
    const words = HOLDING * count
    const from = this.holdings(run)
    const source = this.firstHolding(run)
    this.records[at + SIZE_CLASS] = sizeClass
    if (sizeClass !== 0) this.records[at + POOL_AT] = this.#pool.take(sizeClass + 1)
    const to = this.holdings(run)
    const target = this.firstHolding(run)
    if (words > NATIVE_MIN) to.set(from.subarray(source, source + words), target)
    else for (let i = 0; i < words; i++) to[target + i] = from[source + i] as number
    if (sizeClass === PLACED_CLASS && oldClass < sizeClass) {
      const places = new HolderPlaces()
      for (let i = 0; i < count; i++) places.set(to[target + HOLDING * i] as number, i)
      this.#places.set(run, places)
    } else if (oldClass === PLACED_CLASS && sizeClass < oldClass) this.#places.delete(run)
    if (oldClass !== 0) this.#pool.release(oldAt, oldClass + 1)
  }
}
