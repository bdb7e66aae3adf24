/**
 * How long it takes until a prompt that was computed at one worker goes on at another, against the tokens that have to be
 * moved: learned from first tokens of decode legs, whatever the engines' own way of moving KV is.
 *
 * What is not measured any more is forgotten: when transfers are believed to be slow, requests avoid them, and nothing would say
 * that they have become fast again.
 */
import { FadingFit } from './fading-fit.ts'

const FADE = 0.98
const FLOOR_MS = 1
const KILO = 1000
/** One transfer counts as at most so many times what was expected: a broken connection is no rate. */
const SURPRISE_MAX = 10
/** Without a transfer for so long, half of what is known is what was assumed at first. */
export const HALF_LIFE_MS = 30_000

export class TransferRates {
  readonly #pool = new FadingFit([0, 0], FADE, FLOOR_MS)
  #lastMs = 0

  get count(): number {
    return this.#pool.count
  }

  /** Of so many tokens; `assumedMs`: what is said when none has been measured. */
  predictMs(tokens: number, assumedMs: number, nowMs: number): number {
    if (this.#pool.count === 0) return assumedMs
    const known = 0.5 ** (Math.max(nowMs - this.#lastMs, 0) / HALF_LIFE_MS)
    return assumedMs + known * (this.#pool.predict(featuresOf(tokens)) - assumedMs)
  }

  /** So many tokens have been moved in so long. */
  arrived(tokens: number, elapsedMs: number, nowMs: number): void {
    const features = featuresOf(tokens)
    const most =
      this.#pool.count === 0
        ? Infinity
        : SURPRISE_MAX * Math.max(this.#pool.predict(features), FLOOR_MS)
    this.#pool.add(features, Math.min(Math.max(elapsedMs, 0), most))
    this.#lastMs = nowMs
  }
}

const featuresOf = (tokens: number): readonly number[] => [1, tokens / KILO]
