/**
 * Records of runs, and who holds which part of each.
 *
 * Owns: a run is a stretch of consecutive blocks of one chain, at offsets [start, end) of its pages; an interval
 * (holder, from, to) says that a holder has the blocks at offsets [from, to). Two intervals lie in the record itself,
 * more in a pooled array of size classes, always contiguous, so that a query reads them in one sweep.
 * Invariant: the intervals of one holder in one run neither overlap nor touch.
 */
export const RUN_STRIDE = 16
export const FIRST_PAGE = 0
export const LAST_PAGE = 1
export const START = 2
export const END = 3
export const COUNT = 4
/** 0 while the intervals lie inline, else log2 of the capacity of their array in the pool. */
const SIZE_CLASS = 5
const POOL_AT = 6
/** -1: free; 0: only some blocks are anchored; 1: all are. */
export const DENSE = 7
const INLINE = 8
/** Position + 1 of the block before the first one; 0: there is none; -1: it is not in the index. */
export const PARENT = 14
const INLINE_MAX = 2

export const INTERVAL = 3

export class RunStore {
  records = new Int32Array(RUN_STRIDE * 64)
  pool = new Int32Array(INTERVAL * 64)
  readonly #poolFree = new Int32Array(32).fill(-1)
  #poolTop = 0
  #top = 0
  #free = -1
  #live = 0

  get live(): number {
    return this.#live
  }

  /** Runs 0 .. top-1 exist or are free. */
  get top(): number {
    return this.#top
  }

  get bytes(): number {
    return this.records.byteLength + this.pool.byteLength
  }

  /** A run without blocks and holders. Re-read `records` afterwards. */
  create(isDense: boolean): number {
    let run = this.#free
    if (run >= 0) this.#free = this.records[run * RUN_STRIDE] as number
    else {
      run = this.#top++
      if (this.#top * RUN_STRIDE > this.records.length) this.records = doubled(this.records)
    }
    const { records } = this
    const at = run * RUN_STRIDE
    records.fill(0, at, at + RUN_STRIDE)
    records[at + FIRST_PAGE] = -1
    records[at + LAST_PAGE] = -1
    records[at + DENSE] = isDense ? 1 : 0
    this.#live += 1
    return run
  }

  /** The run has neither pages nor intervals any more. */
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

  /** The array that the intervals of a run lie in; re-read after `add` and `remove`. */
  intervals(run: number): Int32Array {
    return this.records[run * RUN_STRIDE + SIZE_CLASS] === 0 ? this.records : this.pool
  }

  /** Where in `intervals(run)` the first one begins; each takes three words. */
  firstInterval(run: number): number {
    const at = run * RUN_STRIDE
    return this.records[at + SIZE_CLASS] === 0
      ? at + INLINE
      : (this.records[at + POOL_AT] as number)
  }

  /** The interval of a holder that covers an offset, as an index of `intervals(run)`, or -1. */
  intervalAt(run: number, holder: number, offset: number): number {
    const list = this.intervals(run)
    let i = this.firstInterval(run)
    const end = i + INTERVAL * (this.records[run * RUN_STRIDE + COUNT] as number)
    for (; i < end; i += INTERVAL) {
      if (
        list[i] === holder &&
        (list[i + 1] as number) <= offset &&
        (list[i + 2] as number) > offset
      ) {
        return i
      }
    }
    return -1
  }

  /** Any interval of a holder in a run, or -1. */
  anyInterval(run: number, holder: number): number {
    const list = this.intervals(run)
    let i = this.firstInterval(run)
    const end = i + INTERVAL * (this.records[run * RUN_STRIDE + COUNT] as number)
    for (; i < end; i += INTERVAL) if (list[i] === holder) return i
    return -1
  }

  add(run: number, holder: number, from: number, to: number): void {
    const at = run * RUN_STRIDE
    const count = this.records[at + COUNT] as number
    const sizeClass = this.records[at + SIZE_CLASS] as number
    if (sizeClass === 0 ? count === INLINE_MAX : count === 1 << sizeClass) {
      this.#move(run, sizeClass === 0 ? 2 : sizeClass + 1)
    }
    const list = this.intervals(run)
    const i = this.firstInterval(run) + INTERVAL * count
    list[i] = holder
    list[i + 1] = from
    list[i + 2] = to
    this.records[at + COUNT] = count + 1
  }

  /** Removes the interval at an index of `intervals(run)`; the last one takes its place. */
  remove(run: number, index: number): void {
    const at = run * RUN_STRIDE
    const list = this.intervals(run)
    const count = (this.records[at + COUNT] as number) - 1
    const last = this.firstInterval(run) + INTERVAL * count
    list[index] = list[last] as number
    list[index + 1] = list[last + 1] as number
    list[index + 2] = list[last + 2] as number
    this.records[at + COUNT] = count
    const sizeClass = this.records[at + SIZE_CLASS] as number
    if (sizeClass === 0) return
    if (count < INLINE_MAX) this.#move(run, 0)
    else if (sizeClass > 2 && count < 1 << (sizeClass - 2)) this.#move(run, sizeClass - 1)
  }

  /** Forgets the last interval, which has been copied elsewhere; the array stays as large as it is. */
  dropLast(run: number): void {
    this.records[run * RUN_STRIDE + COUNT] = (this.records[run * RUN_STRIDE + COUNT] as number) - 1
  }

  /** Smallest `from` and largest `to` of all intervals; the run has at least one. */
  lowest(run: number): number {
    const list = this.intervals(run)
    let i = this.firstInterval(run) + 1
    const end = i + INTERVAL * (this.records[run * RUN_STRIDE + COUNT] as number)
    let lowest = list[i] as number
    for (; i < end; i += INTERVAL) if ((list[i] as number) < lowest) lowest = list[i] as number
    return lowest
  }

  highest(run: number): number {
    const list = this.intervals(run)
    let i = this.firstInterval(run) + 2
    const end = i + INTERVAL * (this.records[run * RUN_STRIDE + COUNT] as number)
    let highest = list[i] as number
    for (; i < end; i += INTERVAL) if ((list[i] as number) > highest) highest = list[i] as number
    return highest
  }

  /** Moves the intervals of a run to an array of another size class (0: inline). */
  #move(run: number, sizeClass: number): void {
    const at = run * RUN_STRIDE
    const oldClass = this.records[at + SIZE_CLASS] as number
    const words = INTERVAL * (this.records[at + COUNT] as number)
    const target = sizeClass === 0 ? at + INLINE : this.#take(sizeClass)
    const source = this.firstInterval(run)
    const from = this.intervals(run)
    const to = sizeClass === 0 ? this.records : this.pool
    for (let i = 0; i < words; i++) to[target + i] = from[source + i] as number
    if (oldClass !== 0) {
      this.pool[source] = this.#poolFree[oldClass] as number
      this.#poolFree[oldClass] = source
    }
    this.records[at + SIZE_CLASS] = sizeClass
    this.records[at + POOL_AT] = sizeClass === 0 ? 0 : target
  }

  #take(sizeClass: number): number {
    const free = this.#poolFree[sizeClass] as number
    if (free >= 0) {
      this.#poolFree[sizeClass] = this.pool[free] as number
      return free
    }
    const at = this.#poolTop
    this.#poolTop += INTERVAL << sizeClass
    while (this.#poolTop > this.pool.length) this.pool = doubled(this.pool)
    return at
  }
}

function doubled(old: Int32Array): Int32Array<ArrayBuffer> {
  const array = new Int32Array(2 * old.length)
  array.set(old)
  return array
}
