/**
 * Splits the total time of answers whose first token is not visible (not streamed, or in pieces that are not tokens)
 * into the time to the first token and the time of the later ones.
 *
 * Each answer is one equation: total = prompt + per token × uncached tokens + (n − 1) × (step + per request × requests),
 * with n from the server's usage. Answers differ in their lengths, so a few of them determine both parts.
 */
import { FadingFit } from './fading-fit.ts'

const FADE = 0.99
const FLOOR_MS = 5
/**
 * Fewer answers do not separate the two parts, and the first ones contain the start of the server and of its connections:
 * on three idle servers that answer at once, chance in eight answers was enough to move conversations off their prefix.
 */
const KNOWN_AFTER = 32
const KILO = 1000
const GUESS = { prompt: 5, perKilo: 100, step: 10, perRequest: 0.1 }

interface WholeAnswer {
  readonly uncachedTokens: number
  readonly outputTokens: number
  /** Mean number of requests on the rank meanwhile. */
  readonly requests: number
  readonly totalMs: number
}

interface AnswerParts {
  readonly ttftMs: number
  /** Between two tokens; null for answers of one token. */
  readonly itlMs: number | null
}

export class WholeAnswers {
  readonly #fit = new FadingFit(
    [GUESS.prompt, GUESS.perKilo, GUESS.step, GUESS.perRequest],
    FADE,
    FLOOR_MS,
  )

  /** Learns from one answer and splits it; null: too few answers so far. */
  split({ uncachedTokens, outputTokens, requests, totalMs }: WholeAnswer): AnswerParts | null {
    const later = outputTokens - 1
    this.#fit.add([1, uncachedTokens / KILO, later, later * requests], totalMs)
    if (this.#fit.count < KNOWN_AFTER) return null
    const ttftMs = this.#fit.predict([1, uncachedTokens / KILO, 0, 0])
    const laterMs = this.#fit.predict([0, 0, later, later * requests])
    const predictedMs = ttftMs + laterMs
    if (predictedMs <= 0) return null
    // What was not predicted is split in the same proportion.
    const ratio = totalMs / predictedMs
    return { ttftMs: ratio * ttftMs, itlMs: later === 0 ? null : (ratio * laterMs) / later }
  }
}
