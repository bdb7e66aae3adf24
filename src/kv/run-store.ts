/**
 * Records of runs, and the list of who holds what of each.
 *
 * Owns: a run is a stretch of consecutive blocks of one chain, at offsets [start, end) of its pages. A holding is two
 * words: the holder, and the end of what it has from `start` on, or, negative, the complement of a number of
 * `BlockSets`. Three holdings lie in the record itself, more in a pooled array of size classes, always contiguous, so
 * that a query reads them in one sweep. A run needs a page of its own, so there is a bound to the records and they are
 * reserved at once; the pool grows by chunks. So nothing is copied because of growth.
 * Invariant: a holder has at most one holding in a run.
 */
export const RUN_STRIDE = 16
export const FIRST_PAGE = 0
export const LAST_PAGE = 1
export const START = 2
export const END = 3
export const COUNT = 4
/** 0 while the holdings lie inline, else log2 of the capacity of their array in the pool. */
const SIZE_CLASS = 5
/** Chunk of the pool, and where in it. */
const POOL_AT = 6
/** -1: free; 0: only some blocks are anchored; 1: all are. */
export const DENSE = 7
/** Position + 1 of the block before the first one; 0: there is none; -1: it is not in the index. */
export const PARENT = 8
const INLINE = 10
const INLINE_MAX = 3
const POOLED_CLASS_MIN = 3

export const HOLDING = 2

const CHUNK_BITS = 16
const CHUNK = 1 << CHUNK_BITS
const CHUNK_MASK = CHUNK - 1

export class RunStore {
  readonly records: Int32Array
  readonly #chunks: Int32Array[] = []
  /** First free array of each size class, linked by their first words. */
  readonly #poolFree = new Int32Array(32).fill(-1)
  #chunkLeft = 0
  #poolBytes = 0
  #top = 0
  #free = -1
  #live = 0

  constructor(runsMax: number) {
    this.records = new Int32Array(RUN_STRIDE * runsMax)
  }

  get live(): number {
    return this.#live
  }

  /** Runs 0 .. top-1 exist or are free. */
  get top(): number {
    return this.#top
  }

  get bytes(): number {
    return 4 * RUN_STRIDE * this.#top + this.#poolBytes
  }

  /** A run without blocks and holders; there is a page for it. */
  create(isDense: boolean): number {
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
    this.#live += 1
    return run
  }

  /** The run has neither pages nor holdings any more. */
  free(run: number): void {
    const at = run * RUN_STRIDE
    this.records[at] = this.#free
    this.records[at + DENSE] = -1
    this.#free = run
    this.#live -= 1
  }

  /** Blocks from its first to its last one. */
  length(run: number): number {
    const at = run * RUN_STRIDE
    return (this.records[at + END] as number) - (this.records[at + START] as number)
  }

  isFree(run: number): boolean {
    return this.records[run * RUN_STRIDE + DENSE] === -1
  }

  /** The array that the holdings of a run lie in; ask again after `add` and `remove`. */
  holdings(run: number): Int32Array {
    const at = run * RUN_STRIDE
    return this.records[at + SIZE_CLASS] === 0
      ? this.records
      : (this.#chunks[(this.records[at + POOL_AT] as number) >>> CHUNK_BITS] as Int32Array)
  }

  /** Where in `holdings(run)` the first one begins. */
  firstHolding(run: number): number {
    const at = run * RUN_STRIDE
    return this.records[at + SIZE_CLASS] === 0
      ? at + INLINE
      : (this.records[at + POOL_AT] as number) & CHUNK_MASK
  }

  /** The holding of a holder as an index of `holdings(run)`, or -1. */
  holdingOf(run: number, holder: number): number {
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
  }

  /** Removes the holding at an index of `holdings(run)`; the last one takes its place. */
  remove(run: number, index: number): void {
    const at = run * RUN_STRIDE
    const list = this.holdings(run)
    const count = (this.records[at + COUNT] as number) - 1
    const last = this.firstHolding(run) + HOLDING * count
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
    const words = HOLDING * (this.records[at + COUNT] as number)
    const from = this.holdings(run)
    const source = this.firstHolding(run)
    this.records[at + SIZE_CLASS] = sizeClass
    if (sizeClass !== 0) this.records[at + POOL_AT] = this.#take(sizeClass)
    const to = this.holdings(run)
    const target = this.firstHolding(run)
    for (let i = 0; i < words; i++) to[target + i] = from[source + i] as number
    if (oldClass === 0) return
    from[source] = this.#poolFree[oldClass] as number
    this.#poolFree[oldClass] = oldAt
  }

  #take(sizeClass: number): number {
    const free = this.#poolFree[sizeClass] as number
    if (free >= 0) {
      const chunk = this.#chunks[free >>> CHUNK_BITS] as Int32Array
      this.#poolFree[sizeClass] = chunk[free & CHUNK_MASK] as number
      return free
    }
    const length = HOLDING << sizeClass
    if (length > this.#chunkLeft) {
      // What is left of the chunk before stays unused.
      this.#chunkLeft = Math.max(CHUNK, length)
      this.#chunks.push(new Int32Array(this.#chunkLeft))
    }
    const chunk = this.#chunks.length - 1
    const at = (this.#chunks[chunk] as Int32Array).length - this.#chunkLeft
    this.#chunkLeft -= length
    this.#poolBytes += 4 * length
    return (chunk << CHUNK_BITS) | at
  }
}
