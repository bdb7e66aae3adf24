/**
 * Pages that two to eight short runs share, each with an equal part (a share).
 *
 *   run word of a page's record ─▶ 8 words: the run of each share, or -1 (free)
 *
 * Owns which run has which share of such a page. The run word is negative: the complement (~) of the address of the 8
 * words plus the number of shares less one.
 */
import { WordPool } from '../words/word-pool.ts'

/** Blocks of a page. */
const PAGE = 64
const SLOT_MASK = PAGE - 1
/** log2 of the largest number of shares in a page, of at least this many blocks. */
const SHARES_BITS = 3
export const SHARES_MAX = 1 << SHARES_BITS
const COUNT_MASK = SHARES_MAX - 1
const FREE = -1

/** Number of shares in a page if each has space for so many blocks; 1: they need a page. */
export const sharesFor = (blocks: number): number => Math.min(SHARES_MAX, Math.floor(PAGE / blocks))

/** Number of shares of a page with this run word. */
export const sharesOf = (word: number): number => (~word & COUNT_MASK) + 1

const BLOCKS = Int32Array.from({ length: SHARES_MAX }, (_, i) => Math.floor(PAGE / (i + 1)))
/** Number of blocks of a share. */
const blocksOf = (word: number): number => BLOCKS[~word & COUNT_MASK] as number

/** Number of the share with a position. */
const shareAt = (word: number, position: number): number =>
  ((position & SLOT_MASK) / blocksOf(word)) | 0

/** Number of blocks that fit into a share after a position. */
export const shareRoom = (word: number, position: number): number =>
  blocksOf(word) - 1 - ((position & SLOT_MASK) % blocksOf(word))

export class PageShares {
  readonly #pool = new WordPool()
  /** Number of blocks for which there is space in free shares. */
  blocksFree = 0

  get bytes(): number {
    return this.#pool.bytes
  }

  /** The run word for a page of so many free shares. */
  create(shares: number): number {
    const at = this.#pool.take(SHARES_BITS)
    const runs = this.#pool.chunkOf(at)
    const first = this.#pool.offsetOf(at)
    for (let i = 0; i < SHARES_MAX; i++) runs[first + i] = FREE
    const word = ~(at | (shares - 1))
    this.blocksFree += shares * blocksOf(word)
    return word
  }

  /** Call when all shares of a page are free and the page is to be released. */
  drop(word: number): void {
    this.#pool.release(~word & ~COUNT_MASK, SHARES_BITS)
    this.blocksFree -= sharesOf(word) * blocksOf(word)
  }

  #firstOf(word: number): number {
    return this.#pool.offsetOf(~word & ~COUNT_MASK)
  }

  /** The run that has the share with a position, or -1. */
  runAt(word: number, position: number): number {
    return this.#pool.chunkOf(~word)[this.#firstOf(word) + shareAt(word, position)] as number
  }

  /** The first slot of the first free share, or -1. */
  freeSlot(word: number): number {
    const runs = this.#pool.chunkOf(~word)
    const first = this.#firstOf(word)
    for (let i = 0; i < sharesOf(word); i++) {
      if (runs[first + i] === FREE) return i * blocksOf(word)
    }
    return -1
  }

  isUnused(word: number): boolean {
    const runs = this.#pool.chunkOf(~word)
    const first = this.#firstOf(word)
    for (let i = 0; i < sharesOf(word); i++) if (runs[first + i] !== FREE) return false
    return true
  }

  /** Gives the share with a position to a run; -1: it becomes free. */
  give(word: number, position: number, run: number): void {
    this.#pool.chunkOf(~word)[this.#firstOf(word) + shareAt(word, position)] = run
    this.blocksFree += run === FREE ? blocksOf(word) : -blocksOf(word)
  }
}
