/**
 * Two Bloom filters of block hashes. Bits are never removed from them.
 *
 * `SmallFilter` has one bit per hash: cheap to ask for all blocks of a query. `SharpFilter` has four bits in one word, so that
 * it is rarely wrong: 0.2 % if it has as many words as hashes.
 * Sources: B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors" (1970); F. Putze et al., "Cache-, hash-
 * and space-efficient Bloom filters" (2007), for the bits in one word.
 */
import { mixHash, tableLength, tableShift } from './mix-hash.ts'

const WORDS_MIN = 64
/** Hashes per word of a small filter, at most. */
const PER_WORD = 4

export class SmallFilter {
  readonly #words: Int32Array
  readonly #shift: number
  /** Number of hashes that may still be added. */
  left: number

  /** A filter for at least so many hashes. */
  constructor(hashes: number) {
    const length = tableLength(WORDS_MIN, hashes / PER_WORD)
    this.#words = new Int32Array(length)
    // The upper bits of a mixed hash are those that depend on all of it.
    this.#shift = tableShift(length << 5)
    this.left = PER_WORD * length
  }

  get bytes(): number {
    return this.#words.byteLength
  }

  /** Adds a hash (signed halves, as everywhere here). */
  add(low: number, high: number): void {
    const bit = mixHash(low, high) >>> this.#shift
    this.#words[bit >>> 5] = (this.#words[bit >>> 5] as number) | (1 << (bit & 31))
    this.left -= 1
  }

  /** 1 if a hash may have been added, otherwise 0: a number, so that a caller needs no branch. */
  bitOf(low: number, high: number): number {
    const bit = mixHash(low, high) >>> this.#shift
    return ((this.#words[bit >>> 5] as number) >>> (bit & 31)) & 1
  }
}

/** Four bits of a word, which do not depend on the upper bits of the hash. */
function bitsOf(hash: number): number {
  const bits = Math.imul(hash ^ (hash << 13), 0x85ebca6b)
  return (
    (1 << (bits >>> 27)) |
    (1 << ((bits >>> 22) & 31)) |
    (1 << ((bits >>> 17) & 31)) |
    (1 << ((bits >>> 12) & 31))
  )
}

export class SharpFilter {
  readonly #words: Int32Array
  readonly #shift: number

  /** A filter for at least so many hashes. */
  constructor(hashes: number) {
    const length = tableLength(WORDS_MIN, hashes)
    this.#words = new Int32Array(length)
    this.#shift = tableShift(length)
  }

  get bytes(): number {
    return this.#words.byteLength
  }

  /** Number of hashes up to which it is sharp. */
  get capacity(): number {
    return this.#words.length
  }

  add(low: number, high: number): void {
    const hash = mixHash(low, high)
    const word = hash >>> this.#shift
    this.#words[word] = (this.#words[word] as number) | bitsOf(hash)
  }

  /** Whether a hash may have been added. */
  has(low: number, high: number): boolean {
    const hash = mixHash(low, high)
    const bits = bitsOf(hash)
    return ((this.#words[hash >>> this.#shift] as number) & bits) === bits
  }
}
