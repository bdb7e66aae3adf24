/**
 * Whether a short stretch of new blocks is the beginning of a long chain, so that it should be a run at once.
 *
 * Owns: two signs of it. A query has asked for a long prompt that goes on there: its blocks come next, however many events
 * they come in. Or one holder has added to a loose chain block after block for long enough.
 */
import { spreadHash } from '../loose/loose-rows.ts'
import { PagedWords } from '../words/paged-words.ts'

/** A chain that one holder adds to without a break goes on as a run after so many loose blocks. */
export const STREAK_MIN = 32
/** Words kept of a holder's streak: the hash it has come to, and its blocks. */
const STREAK = 3
/** Prompts that are remembered until their blocks come. */
const EXPECTED = 1 << 12

export class RunForecast {
  readonly #streaks = new PagedWords()
  /** The high halves of hashes at which prompts go on, by their spread hash. */
  readonly #expected = new Int32Array(EXPECTED)

  /** A query has asked for a long prompt; this is the first hash (signed halves) of what is not held. */
  expect(low: number, high: number): void {
    this.#expected[spreadHash(low, high) & (EXPECTED - 1)] = high
  }

  isExpected(low: number, high: number): boolean {
    return this.#expected[spreadHash(low, high) & (EXPECTED - 1)] === high
  }

  /** How many loose blocks the holder has added without a break up to this hash. */
  streakTo(holder: number, low: number, high: number): number {
    const k = STREAK * holder
    if (k >= this.#streaks.length) return 0
    const isEnd = this.#streaks.get(k) === low && this.#streaks.get(k + 1) === high
    return isEnd ? this.#streaks.get(k + 2) : 0
  }

  /** The last loose blocks that the holder has added without a break are so many, up to this hash. */
  setStreak(holder: number, blocks: number, low: number, high: number): void {
    const k = STREAK * holder
    this.#streaks.reserve(k + STREAK)
    this.#streaks.set(k, low)
    this.#streaks.set(k + 1, high)
    this.#streaks.set(k + 2, blocks)
  }
}
