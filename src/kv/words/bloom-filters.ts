/**
 * Two Bloom filters of block hashes. Bits are never removed from them.
 *
 * Both have a few bits per hash in one word: `SmallFilter` two, for up to two hashes per word, and is wrong for 2 % of
 * other hashes; `SharpFilter` four, for one hash per word, and is wrong for 0.2 %.
 * Sources: B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors" (1970); F. Putze et al., "Cache-, hash-
 * and space-efficient Bloom filters" (2007), for the bits in one word.
 */
import { mixHash, tableLength, tableShift } from './mix-hash.ts'

const WORDS_MIN = 64
/** Hashes per word of a small filter, at most. */
const PER_WORD = 2

export class SmallFilter {
  readonly #words: Int32Array
  readonly #shift: number
  /** Where the numbers of the two bits begin in a mixed hash: after the bits of the word. */
  readonly #first: number
  readonly #second: number
  /** Number of hashes that may still be added. */
  left: number

  /** A filter for at least so many hashes. */
  constructor(hashes: number) {
    const length = tableLength(WORDS_MIN, hashes / PER_WORD)
    this.#words = new Int32Array(length)
    // The upper bits of a mixed hash are those that depend on all of it.
    this.#shift = tableShift(length)
    this.#first = this.#shift - 5
    this.#second = this.#shift - 10
    this.left = PER_WORD * length
  }

  get bytes(): number {
    return this.#words.byteLength
  }

  /** Adds a hash (signed halves, as everywhere here). */
  add(low: number, high: number): void {
    const mixed = mixHash(low, high)
    const word = mixed >>> this.#shift
    const bits = (1 << (mixed >>> this.#first)) | (1 << (mixed >>> this.#second))
    this.#words[word] = (this.#words[word] as number) | bits
    this.left -= 1
  }

  /** 1 if a hash may have been added, otherwise 0: a number, so that a caller needs no branch. */
  bitOf(low: number, high: number): number {
    const mixed = mixHash(low, high)
    const bits = this.#words[mixed >>> this.#shift] as number
    return (bits >>> (mixed >>> this.#first)) & (bits >>> (mixed >>> this.#second)) & 1
  }
}

/** The bits of a mixed hash in a sharp filter: four, which do not depend on its upper bits. */
function sharpBits(mixed: number): number {
  const bits = Math.imul(mixed ^ (mixed << 13), 0x85ebca6b)
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
    const mixed = mixHash(low, high)
    const word = mixed >>> this.#shift
    this.#words[word] = (this.#words[word] as number) | sharpBits(mixed)
  }

  /** Whether a hash may have been added. */
  has(low: number, high: number): boolean {
    const mixed = mixHash(low, high)
    const bits = sharpBits(mixed)
    return ((this.#words[mixed >>> this.#shift] as number) & bits) === bits
  }
}
