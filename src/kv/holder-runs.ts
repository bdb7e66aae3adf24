/**
 * For each holder the runs that it has blocks of, so that forgetting or searching a holder costs its own share.
 *
 * Owns: append-only lists that may name a run twice or name one that the holder has left; they are cleaned when half
 * of a list may be stale. Counts of runs are exact.
 */
import type { RunStore } from './run-store.ts'

const LENGTH_MIN = 8

export class HolderRuns {
  readonly #runs: RunStore
  readonly #lists: (Int32Array | undefined)[] = []
  readonly #lengths: number[] = []
  readonly #counts: number[] = []
  readonly #sparse: number[] = []
  #mark = new Int32Array(64)
  #epoch = 0
  #bytes = 0

  constructor(runs: RunStore) {
    this.#runs = runs
  }

  /** One more than the largest holder seen. */
  get holderCount(): number {
    return this.#lists.length
  }

  get bytes(): number {
    return this.#bytes + this.#mark.byteLength + 32 * this.#lists.length
  }

  /** Runs of a holder that are not dense. */
  sparseCount(holder: number): number {
    return this.#sparse[holder] ?? 0
  }

  reserve(holder: number): void {
    while (this.#lists.length <= holder) {
      this.#lists.push(undefined)
      this.#lengths.push(0)
      this.#counts.push(0)
      this.#sparse.push(0)
    }
  }

  /** The holder has blocks of a run from now on. */
  entered(holder: number, run: number, isSparse: boolean): void {
    const count = (this.#counts[holder] as number) + 1
    this.#counts[holder] = count
    if (isSparse) this.#sparse[holder] = (this.#sparse[holder] as number) + 1
    let list = this.#lists[holder]
    let length = this.#lengths[holder] as number
    if (list === undefined || length === list.length) {
      if (list !== undefined && length > 2 * count + LENGTH_MIN) length = this.#clean(holder)
      list = this.#resize(holder, length)
    }
    list[length] = run
    this.#lengths[holder] = length + 1
  }

  /** The holder has nothing of a run any more. */
  left(holder: number, isSparse: boolean): void {
    this.#counts[holder] = (this.#counts[holder] as number) - 1
    if (isSparse) this.#sparse[holder] = (this.#sparse[holder] as number) - 1
  }

  /** A run of the holder has become dense. */
  densified(holder: number): void {
    this.#sparse[holder] = (this.#sparse[holder] as number) - 1
  }

  /** The runs that the holder is in, each once, as the first `count` of `list`. */
  of(holder: number): { readonly list: Int32Array; readonly count: number } {
    const count = this.#clean(holder)
    return { list: this.#lists[holder] ?? EMPTY, count }
  }

  /** After the last run has been left. */
  forget(holder: number): void {
    this.#bytes -= this.#lists[holder]?.byteLength ?? 0
    this.#lists[holder] = undefined
    this.#lengths[holder] = 0
  }

  #resize(holder: number, length: number): Int32Array {
    const old = this.#lists[holder]
    const list = new Int32Array(Math.max(LENGTH_MIN, 2 * length))
    if (old !== undefined) list.set(old.subarray(0, length))
    this.#bytes += list.byteLength - (old?.byteLength ?? 0)
    this.#lists[holder] = list
    return list
  }

  #clean(holder: number): number {
    const list = this.#lists[holder]
    if (list === undefined) return 0
    if (this.#mark.length < this.#runs.top) this.#mark = new Int32Array(2 * this.#runs.top)
    this.#epoch += 1
    let kept = 0
    for (let i = 0; i < (this.#lengths[holder] as number); i++) {
      const run = list[i] as number
      if (this.#mark[run] === this.#epoch || this.#runs.isFree(run)) continue
      if (this.#runs.holdingOf(run, holder) < 0) continue
      this.#mark[run] = this.#epoch
      list[kept++] = run
    }
    this.#lengths[holder] = kept
    return kept
  }
}

const EMPTY = new Int32Array(0)
