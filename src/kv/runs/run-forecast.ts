/**
 * Predicts whether a short stretch of new blocks is the beginning of a long chain and should become a run at once.
 *
 * Two signs: a query has asked for a long prompt that continues at this block, so its blocks will be stored next, in
 * any number of events; or one holder has appended block after block to a loose chain for long enough.
 */
import { spreadHash } from '../loose/loose-rows.ts'
import { PagedWords } from '../words/paged-words.ts'

/**
 * After this many loose blocks appended by one holder, the chain continues as a run. With fewer, the run's own memory
 * (about 160 bytes with the smallest share of a page) would make a chain that ends soon take more than 25 bytes per block.
 */
export const STREAK_MIN = 64
/** Words stored per holder: the last hash of its streak and its length. */
const STREAK = 3
/** Number of prompts that are remembered until their blocks are stored. */
const EXPECTED = 1 << 12

export class RunForecast {
  readonly #streaks = new PagedWords()
  /** By spread hash: the high halves of hashes at which queried prompts continue. */
  readonly #expected = new Int32Array(EXPECTED)

  /** A long prompt was queried; this is the first hash (signed halves) that no holder has. */
  expect(low: number, high: number): void {
    this.#expected[spreadHash(low, high) & (EXPECTED - 1)] = high
  }

  isExpected(low: number, high: number): boolean {
    return this.#expected[spreadHash(low, high) & (EXPECTED - 1)] === high
  }

  /** Number of loose blocks that the holder has appended without a break up to this hash. */
  streakTo(holder: number, low: number, high: number): number {
    const k = STREAK * holder
    if (k >= this.#streaks.length) return 0
    const isEnd = this.#streaks.get(k) === low && this.#streaks.get(k + 1) === high
    return isEnd ? this.#streaks.get(k + 2) : 0
  }

  /** Sets the holder's streak of appended loose blocks, which ends at this hash. */
  setStreak(holder: number, blocks: number, low: number, high: number): void {
    const k = STREAK * holder
    this.#streaks.reserve(k + STREAK)
    this.#streaks.set(k, low)
    this.#streaks.set(k + 1, high)
    this.#streaks.set(k + 2, blocks)
  }
}
