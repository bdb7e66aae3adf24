/**
 * The blocks of a run that a holder has, as bit sets over offsets, if they are not simply the first ones. Needed when
 * chains are evicted from the front or in any order; adding and removing a block changes one bit.
 *
 *   set │ low │ high │ count │ first word and size class │ a bit for each block … │
 *
 * Sets are short arrays of a pool and named by their addresses, because there may be one for every few blocks, and as
 * objects they would take more memory than these. Offsets of a set begin at its first word: a run only loses offsets at
 * its front.
 */
import { bitCount, bitsBetween } from '../words/bit-count.ts'
import { WordPool } from '../words/word-pool.ts'

const LOW = 0
const HIGH = 1
const COUNT = 2
/** Number of the first word (offset / 32) above the size class. */
const BASE = 3
const BITS = 4
const CLASS_BITS = 5
const CLASS_MASK = (1 << CLASS_BITS) - 1
const LOOP_CLASS_MAX = 4

/** Size class of a set with so many words of bits. */
const classFor = (words: number): number => 32 - Math.clz32(BITS + words - 1)

export class BlockSets {
  readonly #pool = new WordPool()

  get bytes(): number {
    return this.#pool.bytes
  }

  /** Creates a set of the blocks [from, to) of a run that begins at `start`; returns its address. */
  create(start: number, from: number, to: number): number {
    const base = start >> 5
    return this.add(this.#take(base, ((to - 1) >> 5) - base + 1, from), from, to)
  }

  /** Creates a set of the blocks at the offsets number `from` .. `to`, ascending, of a run that begins at `start`. */
  createOf(start: number, offsets: Int32Array, from: number, to: number): number {
    const base = start >> 5
    const low = offsets[from] as number
    const high = (offsets[to - 1] as number) + 1
    const set = this.#take(base, ((high - 1) >> 5) - base + 1, low)
    const chunk = this.#pool.chunkOf(set)
    const at = this.#pool.offsetOf(set)
    chunk[at + HIGH] = high
    chunk[at + COUNT] = to - from
    const bits = at + BITS - base
    for (let i = from; i < to; i++) {
      const offset = offsets[i] as number
      const word = bits + (offset >> 5)
      chunk[word] = (chunk[word] as number) | (1 << (offset & 31))
    }
    return set
  }

  /** An empty set with space for so many words of bits. */
  #take(base: number, words: number, low: number): number {
    const sizeClass = classFor(words)
    const set = this.#pool.take(sizeClass)
    const chunk = this.#pool.chunkOf(set)
    const at = this.#pool.offsetOf(set)
    // For a few words a native call takes longer than a loop.
    if (sizeClass > LOOP_CLASS_MAX) chunk.fill(0, at, at + (1 << sizeClass))
    else for (let i = 0; i < 1 << sizeClass; i++) chunk[at + i] = 0
    chunk[at + LOW] = low
    chunk[at + HIGH] = low
    chunk[at + BASE] = (base << CLASS_BITS) | sizeClass
    return set
  }

  release(set: number): void {
    const base = this.#field(set, BASE)
    this.#pool.release(set, base & CLASS_MASK)
  }

  #field(set: number, field: number): number {
    return this.#pool.chunkOf(set)[this.#pool.offsetOf(set) + field] as number
  }

  /** The lowest offset; `highOf` is one more than the highest. The set is not empty. */
  lowOf(set: number): number {
    return this.#field(set, LOW)
  }

  highOf(set: number): number {
    return this.#field(set, HIGH)
  }

  countOf(set: number): number {
    return this.#field(set, COUNT)
  }

  /** Whether the set has no gaps. */
  isStretch(set: number): boolean {
    return this.countOf(set) === this.highOf(set) - this.lowOf(set)
  }

  has(set: number, offset: number): boolean {
    const chunk = this.#pool.chunkOf(set)
    const at = this.#pool.offsetOf(set)
    if (offset < (chunk[at + LOW] as number) || offset >= (chunk[at + HIGH] as number)) return false
    const word = (offset >> 5) - ((chunk[at + BASE] as number) >> CLASS_BITS)
    return ((chunk[at + BITS + word] as number) & (1 << (offset & 31))) !== 0
  }

  /** The first offset at or after `offset` that is not in the set. */
  endOf(set: number, offset: number): number {
    const chunk = this.#pool.chunkOf(set)
    const bits = this.#bitsOf(set)
    while (this.has(set, offset)) {
      const left = ~(chunk[bits + (offset >> 5)] as number) >>> (offset & 31)
      if (left !== 0) return offset + 31 - Math.clz32(left & -left)
      offset = (offset | 31) + 1
    }
    return offset
  }

  /** Index in its chunk at which the word of offset 0 would be. */
  #bitsOf(set: number): number {
    return this.#pool.offsetOf(set) + BITS - (this.#field(set, BASE) >> CLASS_BITS)
  }

  /** Writes all offsets of a set, ascending, to an array from an index on; returns the index after them. */
  offsetsOf(set: number, offsets: Int32Array, index: number): number {
    const chunk = this.#pool.chunkOf(set)
    const bits = this.#bitsOf(set)
    const last = (this.highOf(set) - 1) >> 5
    for (let word = this.lowOf(set) >> 5; word <= last; word++) {
      for (let left = chunk[bits + word] as number; left !== 0; left &= left - 1) {
        offsets[index++] = (word << 5) + 31 - Math.clz32(left & -left)
      }
    }
    return index
  }

  /** Adds [from, to) to a set; returns its address, which changes if it needs more space. */
  add(set: number, from: number, to: number): number {
    const grown = this.#withSpace(set, to)
    const chunk = this.#pool.chunkOf(grown)
    const at = this.#pool.offsetOf(grown)
    const bits = this.#bitsOf(grown)
    let added = 0
    for (let offset = from; offset < to;) {
      const stop = Math.min(to, (offset | 31) + 1)
      const old = chunk[bits + (offset >> 5)] as number
      const missing = bitsBetween(offset, stop) & ~old
      chunk[bits + (offset >> 5)] = old | missing
      added += bitCount(missing)
      offset = stop
    }
    chunk[at + COUNT] = (chunk[at + COUNT] as number) + added
    chunk[at + LOW] = Math.min(chunk[at + LOW] as number, from)
    chunk[at + HIGH] = Math.max(chunk[at + HIGH] as number, to)
    return grown
  }

  #withSpace(set: number, to: number): number {
    const field = this.#field(set, BASE)
    const base = field >> CLASS_BITS
    const words = ((to - 1) >> 5) - base + 1
    const length = 1 << (field & CLASS_MASK)
    if (BITS + words <= length) return set
    const grown = this.#take(base, words, 0)
    const chunk = this.#pool.chunkOf(grown)
    const at = this.#pool.offsetOf(grown)
    const old = this.#pool.chunkOf(set)
    const from = this.#pool.offsetOf(set)
    for (let i = 0; i < length; i++) if (i !== BASE) chunk[at + i] = old[from + i] as number
    this.release(set)
    return grown
  }

  /** Removes [from, to); returns how many were present. */
  delete(set: number, from: number, to: number): number {
    const chunk = this.#pool.chunkOf(set)
    const at = this.#pool.offsetOf(set)
    const bits = this.#bitsOf(set)
    const high = chunk[at + HIGH] as number
    let gone = 0
    for (let offset = Math.max(from, chunk[at + LOW] as number); offset < to && offset < high;) {
      const stop = Math.min(to, (offset | 31) + 1)
      const old = chunk[bits + (offset >> 5)] as number
      const present = old & bitsBetween(offset, stop)
      chunk[bits + (offset >> 5)] = old & ~present
      gone += bitCount(present)
      offset = stop
    }
    this.#lost(set, gone)
    return gone
  }

  /** Removes a block that is neither the first nor the last one; returns whether it was such a block. */
  deleteInner(set: number, offset: number): boolean {
    const chunk = this.#pool.chunkOf(set)
    const at = this.#pool.offsetOf(set)
    if (offset <= (chunk[at + LOW] as number) || offset >= (chunk[at + HIGH] as number) - 1) {
      return false
    }
    const word = this.#bitsOf(set) + (offset >> 5)
    const old = chunk[word] as number
    const left = old & ~(1 << (offset & 31))
    if (left === old) return false
    chunk[word] = left
    chunk[at + COUNT] = (chunk[at + COUNT] as number) - 1
    return true
  }

  /** The set has so many blocks less: corrects count and ends. */
  #lost(set: number, gone: number): void {
    const chunk = this.#pool.chunkOf(set)
    const at = this.#pool.offsetOf(set)
    const count = (chunk[at + COUNT] as number) - gone
    chunk[at + COUNT] = count
    if (count === 0) return
    const bits = this.#bitsOf(set)
    let word = (chunk[at + LOW] as number) >> 5
    while (chunk[bits + word] === 0) word += 1
    const first = chunk[bits + word] as number
    chunk[at + LOW] = (word << 5) + 31 - Math.clz32(first & -first)
    word = ((chunk[at + HIGH] as number) - 1) >> 5
    while (chunk[bits + word] === 0) word -= 1
    chunk[at + HIGH] = (word << 5) + 32 - Math.clz32(chunk[bits + word] as number)
  }
}
