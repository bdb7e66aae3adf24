/**
 * The blocks of a run that a holder has, as a bit set over offsets, if they are not simply the first ones. Needed
 * when chains are evicted from the front or in any order; adding and removing a block changes one bit.
 */
import { bitCount } from '../words/bit-count.ts'

export class BlockSet {
  #words: Int32Array
  /** Number of the first word; a run only loses offsets at its front, so it stays the first. */
  readonly #base: number
  #count = 0
  #low = 0
  #high = 0

  /** A set of the blocks [from, to) of a run that begins at offset `start`. */
  constructor(start: number, from: number, to: number) {
    this.#base = start >> 5
    this.#words = new Int32Array(((to - 1) >> 5) - this.#base + 1)
    this.#low = from
    this.add(from, to)
  }

  get count(): number {
    return this.#count
  }

  /** The lowest offset; `high` is one more than the highest. The set is not empty. */
  get low(): number {
    return this.#low
  }

  get high(): number {
    return this.#high
  }

  get bytes(): number {
    return this.#words.byteLength
  }

  /** Whether the set has no gaps. */
  get isStretch(): boolean {
    return this.#count === this.#high - this.#low
  }

  has(at: number): boolean {
    if (at < this.#low || at >= this.#high) return false
    return ((this.#words[(at >> 5) - this.#base] as number) & (1 << (at & 31))) !== 0
  }

  /** The first offset at or after `at` that is not in the set. */
  endOf(at: number): number {
    while (this.has(at)) {
      const left = ~(this.#words[(at >> 5) - this.#base] as number) >>> (at & 31)
      if (left !== 0) return at + 31 - Math.clz32(left & -left)
      at = (at | 31) + 1
    }
    return at
  }

  /** Adds [from, to); returns how many were missing. */
  add(from: number, to: number): number {
    this.#reserve(to)
    const before = this.#count
    for (let at = from; at < to;) {
      const stop = Math.min(to, (at | 31) + 1)
      const word = (at >> 5) - this.#base
      const old = this.#words[word] as number
      const missing = bitsBetween(at, stop) & ~old
      this.#words[word] = old | missing
      this.#count += bitCount(missing)
      at = stop
    }
    this.#low = Math.min(this.#low, from)
    this.#high = Math.max(this.#high, to)
    return this.#count - before
  }

  /** Removes [from, to); returns how many were present. */
  delete(from: number, to: number): number {
    const before = this.#count
    for (let at = Math.max(from, this.#low); at < to && at < this.#high;) {
      const stop = Math.min(to, (at | 31) + 1)
      const word = (at >> 5) - this.#base
      const old = this.#words[word] as number
      const gone = old & bitsBetween(at, stop)
      this.#words[word] = old & ~gone
      this.#count -= bitCount(gone)
      at = stop
    }
    if (this.#count > 0) this.#tighten()
    return before - this.#count
  }

  /** Removes a block that is neither the first nor the last one; returns whether it was such a block. */
  deleteInner(at: number): boolean {
    if (at <= this.#low || at >= this.#high - 1) return false
    const word = (at >> 5) - this.#base
    const old = this.#words[word] as number
    const left = old & ~(1 << (at & 31))
    if (left === old) return false
    this.#words[word] = left
    this.#count -= 1
    return true
  }

  #tighten(): void {
    const words = this.#words
    let word = (this.#low >> 5) - this.#base
    while (words[word] === 0) word += 1
    const first = words[word] as number
    this.#low = ((word + this.#base) << 5) + 31 - Math.clz32(first & -first)
    word = ((this.#high - 1) >> 5) - this.#base
    while (words[word] === 0) word -= 1
    this.#high = ((word + this.#base) << 5) + 32 - Math.clz32(words[word] as number)
  }

  #reserve(to: number): void {
    const length = ((to - 1) >> 5) - this.#base + 1
    if (length <= this.#words.length) return
    const words = new Int32Array(Math.max(length, 2 * this.#words.length))
    words.set(this.#words)
    this.#words = words
  }
}

/** The bits [from, to) within the word that contains them. */
export function bitsBetween(from: number, to: number): number {
  return to - from === 32 ? -1 : ((1 << (to - from)) - 1) << (from & 31)
}
