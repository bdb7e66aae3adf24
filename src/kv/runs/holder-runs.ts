/**
 * For each holder the runs that it has blocks of, so that forgetting or searching a holder costs its own share.
 *
 * Owns: append-only lists that may name a run twice or name one that the holder has left; they are cleaned when half
 * of a list may be stale. Counts of runs are exact. Lists lie in a pool and what is known of a holder in pages of words,
 * because a million holders as objects are work for the garbage collector.
 */
import { PagedWords } from '../words/paged-words.ts'
import { WordPool } from '../words/word-pool.ts'
import type { RunStore } from './run-store.ts'

const CLASS_MIN = 2

/** What is known of a holder. */
const STRIDE = 5
const LIST_AT = 0
/** log2 of the capacity of the list; 0: there is no list. */
const LIST_CLASS = 1
const LENGTH = 2
const COUNT = 3
const SPARSE = 4

export interface RunList {
  readonly list: Int32Array
  readonly first: number
  readonly count: number
}

export class HolderRuns {
  readonly #runs: RunStore
  readonly #pool = new WordPool()
  readonly #records = new PagedWords()
  #holderCount = 0
  #mark = new Int32Array(64)
  #epoch = 0

  constructor(runs: RunStore) {
    this.#runs = runs
  }

  /** One more than the largest holder seen. */
  get holderCount(): number {
    return this.#holderCount
  }

  get bytes(): number {
    return this.#pool.bytes + this.#mark.byteLength + this.#records.bytes
  }

  /** Runs of a holder that are not dense. */
  sparseCount(holder: number): number {
    return holder < this.#holderCount ? this.#records.get(STRIDE * holder + SPARSE) : 0
  }

  reserve(holder: number): void {
    if (holder < this.#holderCount) return
    this.#holderCount = holder + 1
    this.#records.reserve(STRIDE * this.#holderCount)
  }

  /** The holder has blocks of a run from now on. */
  entered(holder: number, run: number, isSparse: boolean): void {
    const records = this.#records
    const at = STRIDE * holder
    const count = records.add(at + COUNT, 1)
    if (isSparse) records.add(at + SPARSE, 1)
    let length = records.get(at + LENGTH)
    const sizeClass = records.get(at + LIST_CLASS)
    if (sizeClass === 0 || length === 1 << sizeClass) {
      if (sizeClass !== 0 && length > 2 * count + (1 << CLASS_MIN)) length = this.#clean(holder)
      this.#resize(holder, length)
    }
    const listAt = records.get(at + LIST_AT)
    this.#pool.chunkOf(listAt)[this.#pool.offsetOf(listAt) + length] = run
    records.set(at + LENGTH, length + 1)
  }

  /** The holder has nothing of a run any more. */
  left(holder: number, isSparse: boolean): void {
    const at = STRIDE * holder
    const count = this.#records.add(at + COUNT, -1)
    if (isSparse) this.#records.add(at + SPARSE, -1)
    if (count === 0) this.forget(holder)
  }

  /** A run of the holder has become dense. */
  densified(holder: number): void {
    this.#records.add(STRIDE * holder + SPARSE, -1)
  }

  /** The runs that the holder is in, each once: `count` words of `list` from `first` on, until the holder is in another. */
  of(holder: number): RunList {
    const count = this.#clean(holder)
    if (count === 0) return NO_RUNS
    const listAt = this.#records.get(STRIDE * holder + LIST_AT)
    return { list: this.#pool.chunkOf(listAt), first: this.#pool.offsetOf(listAt), count }
  }

  /** After the last run has been left. */
  forget(holder: number): void {
    const at = STRIDE * holder
    const sizeClass = this.#records.get(at + LIST_CLASS)
    if (sizeClass !== 0) this.#pool.release(this.#records.get(at + LIST_AT), sizeClass)
    this.#records.set(at + LIST_CLASS, 0)
    this.#records.set(at + LENGTH, 0)
  }

  /** A list with space for twice what is in it. */
  #resize(holder: number, length: number): void {
    const records = this.#records
    const at = STRIDE * holder
    const oldClass = records.get(at + LIST_CLASS)
    const sizeClass = Math.max(CLASS_MIN, 32 - Math.clz32(length))
    const oldAt = records.get(at + LIST_AT)
    const listAt = this.#pool.take(sizeClass)
    if (oldClass !== 0) {
      const from = this.#pool.offsetOf(oldAt)
      const old = this.#pool.chunkOf(oldAt).subarray(from, from + length)
      this.#pool.chunkOf(listAt).set(old, this.#pool.offsetOf(listAt))
      this.#pool.release(oldAt, oldClass)
    }
    records.set(at + LIST_AT, listAt)
    records.set(at + LIST_CLASS, sizeClass)
  }

  #clean(holder: number): number {
    const records = this.#records
    const at = STRIDE * holder
    if (holder >= this.#holderCount || records.get(at + LIST_CLASS) === 0) return 0
    const list = this.#pool.chunkOf(records.get(at + LIST_AT))
    const first = this.#pool.offsetOf(records.get(at + LIST_AT))
    if (this.#mark.length < this.#runs.top) this.#mark = new Int32Array(2 * this.#runs.top)
    this.#epoch += 1
    const last = first + records.get(at + LENGTH)
    let kept = first
    for (let i = first; i < last; i++) {
      const run = list[i] as number
      if (this.#mark[run] === this.#epoch || this.#runs.isFree(run)) continue
      if (this.#runs.holdingOf(run, holder) < 0) continue
      this.#mark[run] = this.#epoch
      list[kept++] = run
    }
    records.set(at + LENGTH, kept - first)
    return kept - first
  }
}

const NO_RUNS: RunList = { list: new Int32Array(0), first: 0, count: 0 }
