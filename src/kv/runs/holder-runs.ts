/**
 * For each holder the runs that it has blocks of, so that removing or searching a holder costs only its own share, and the
 * number of these blocks.
 *
 * Append-only lists that may contain a run twice, or a run that the holder has left; a list is cleaned up when half
 * of it may be stale. The counts are exact. Lists are in a word pool and records in paged words, because a million
 * holders as JavaScript objects would burden the garbage collector.
 */
import { PagedWords } from '../words/paged-words.ts'
import { WordPool } from '../words/word-pool.ts'
import type { RunStore } from './run-store.ts'

const CLASS_MIN = 2
/** Fewer records stay for the next run. */
const RECORD_BYTES_MIN = 1 << 18

const MARKS_MIN = 64

/** Words of the record of a holder. */
const STRIDE = 6
const LIST_AT = 0
/** log2 of the capacity of the list; 0: there is no list. */
const LIST_CLASS = 1
const LENGTH = 2
const COUNT = 3
const SPARSE = 4
const ENTRIES = 5

export interface RunList {
  readonly list: Int32Array
  readonly first: number
  readonly count: number
}

export class HolderRuns {
  readonly #runs: RunStore
  readonly #pool = new WordPool()
  #records = new PagedWords()
  #holderCount = 0
  #mark = new Int32Array(MARKS_MIN)
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

  /** Number of them that are not dense. */
  sparseCount(holder: number): number {
    return this.#records.at(STRIDE * holder + SPARSE)
  }

  /** Number of its blocks in all runs. */
  entriesOf(holder: number): number {
    return this.#records.at(STRIDE * holder + ENTRIES)
  }

  /** The holder has gained so many blocks of runs that it has entered, or lost them. */
  count(holder: number, change: number): void {
    this.#records.add(STRIDE * holder + ENTRIES, change)
  }

  reserve(holder: number): void {
    if (holder >= this.#holderCount) this.#holderCount = holder + 1
  }

  /** The holder now has blocks of a run. */
  entered(holder: number, run: number, isSparse: boolean): void {
    const records = this.#records
    const at = STRIDE * holder
    records.reserve(at + STRIDE)
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

  /** The holder has no blocks of a run any more. */
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

  /**
   * The runs of the holder, each once: `count` words of `list` from index `first`; valid until the holder enters
   * another run.
   */
  of(holder: number): RunList {
    const count = this.#clean(holder)
    if (count === 0) return NO_RUNS
    const listAt = this.#records.get(STRIDE * holder + LIST_AT)
    return { list: this.#pool.chunkOf(listAt), first: this.#pool.offsetOf(listAt), count }
  }

  /** Call after the holder has left its last run. */
  forget(holder: number): void {
    const at = STRIDE * holder
    const sizeClass = this.#records.get(at + LIST_CLASS)
    if (sizeClass !== 0) this.#pool.release(this.#records.get(at + LIST_AT), sizeClass)
    this.#records.set(at + LIST_CLASS, 0)
    this.#records.set(at + LENGTH, 0)
  }

  /** No holder has a run any more: releases the records of former holders and runs, if they are many. */
  clear(): void {
    if (this.#records.bytes >= RECORD_BYTES_MIN) this.#records = new PagedWords()
    if (this.#mark.length > MARKS_MIN) this.#mark = new Int32Array(MARKS_MIN)
  }

  /** Replaces the list by one with twice the needed capacity. */
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
    if (records.at(at + LIST_CLASS) === 0) return 0
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
