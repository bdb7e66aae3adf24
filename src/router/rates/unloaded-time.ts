/**
 * How long a request of one rank takes to its first token when nothing waits before it, and from when on one is late.
 *
 * The time is a line over the tokens to compute, learned from requests that were alone. Until the first answer nothing is
 * known and nothing is late.
 */
import { FadingFit } from './fading-fit.ts'

const GUESS_MS = 5
const GUESS_PER_TOKEN_MS = 0.1
const FADE = 0.98
const FLOOR_MS = 1
const KILO = 1000
/** The first requests may have been quick by chance: their average is multiplied by at least this, divided by their number. */
const FIRST_SLOWER = 4
const ENOUGH = 8
/** So many requests behind a few others are a better measure than others that were alone long ago. */
const CROWD = 8
const CROWD_MIN = 3
/** What is taken for their own time; with less, a limit that is too low would grow too slowly. */
const OWN_SHARE = 0.75
/** Two limits are compared when so many requests were let in by each, and one is so much lower. */
const LEVEL = 24
const LOWER = 0.6
const AS_LONG = 0.85
/** What one request that was alone needed is no sign of a queue for others; a straggler must not end all judgement. */
const EXCESS_FADE = 0.7
const EXCESS_ROOM = 1.25
const EXCESS_MAX = 16
/** A request may take this much longer than an unloaded one in any case: steps of others, a pause of the machine. */
const GRACE_MS = 100

interface Level {
  max: number
  count: number
  sum: number
}

const NO_LEVEL: Level = { max: Infinity, count: 0, sum: 0 }

export class UnloadedTime {
  #alone: FadingFit | null = null
  /** Answers to requests that were let in by about this limit, and by a larger one before: how long they took, of their time alone. */
  #level: Level = { ...NO_LEVEL }
  #levelBefore: Level = NO_LEVEL
  #crowd: FadingFit | null = null
  readonly #slower: number
  /** How many times longer than the line recent requests that were alone took; fades with each of them. */
  #excess = 0
  /** The longest recent prompt delays those behind it, until then. */
  #longestMs = 0
  #longestUntilMs = 0

  /** `slower`: how many times longer than an unloaded one a request takes in a full batch. */
  constructor(slower: number) {
    this.#slower = slower
  }

  get isKnown(): boolean {
    return this.#alone !== null
  }

  /** The first requests are slow: the engine warms up. Until enough were alone, one that is faster counts although it was not. */
  isSlowFor(tokens: number, elapsedMs: number): boolean {
    return (this.#alone?.count ?? 0) < ENOUGH && elapsedMs < this.aloneMs(tokens)
  }

  /** A request that was alone; `isSure`: nothing else ran there either, of this router or of others. */
  learn(tokens: number, elapsedMs: number, isSure: boolean): void {
    this.#alone = withTime(this.#alone, tokens, elapsedMs)
    this.#crowd = null
    this.#forgetLevels()
    if (!isSure) return
    const excess = elapsedMs / this.aloneMs(tokens)
    this.#excess = Math.min(Math.max(excess, EXCESS_FADE * this.#excess), EXCESS_MAX)
  }

  /**
   * A request behind a few others, while no more are let in. If such requests are late on average, either they wait for
   * these, or the time was learned from other requests than the rank has now. As none may be alone any more, they are then
   * taken for the measure: at worst the wait for a few counts as time of the request itself. Returns how
   * many times longer the time after which a request is late is now.
   */
  learnBehind(tokens: number, elapsedMs: number): number {
    const crowd = withTime(this.#crowd, tokens, OWN_SHARE * elapsedMs)
    this.#crowd = crowd
    const ownMs = crowd.predict([1, tokens / KILO])
    const dueMs = this.dueMs(tokens)
    const excess = ownMs / (OWN_SHARE * dueMs)
    // Fewer requests are enough if they took much longer.
    if (excess <= 1 || excess * crowd.count < CROWD || crowd.count < CROWD_MIN) return 1
    this.#alone = crowd
    this.#crowd = null
    this.#forgetLevels()
    return Math.max(1, this.dueMs(tokens) / dueMs)
  }

  /**
   * A request that a limit has let in. In a queue, waits fall with the limit. If requests take as long as with a clearly
   * larger limit, they do not wait, and that is their time. Returns like `learnBehind`. `max`: the limit when it was sent.
   */
  learnFromLevels(tokens: number, elapsedMs: number, max: number, maxNow: number): number {
    if (maxNow > this.#level.max) this.#forgetLevels()
    if (this.#alone === null || max > this.#level.max) return 1
    const level = this.#level
    if (level.max === Infinity) level.max = max
    level.sum += elapsedMs / this.aloneMs(tokens)
    level.count++
    if (level.count < LEVEL) return 1
    const before = this.#levelBefore
    const times = level.sum / level.count
    const isAsLong = times >= (AS_LONG * before.sum) / before.count
    if (level.max <= LOWER * before.max && before.count > 0 && isAsLong) return this.#stretch(times)
    if (maxNow <= LOWER * level.max) {
      this.#levelBefore = level
      this.#level = { max: maxNow, count: 0, sum: 0 }
    }
    return 1
  }

  #stretch(times: number): number {
    const known = this.#alone as FadingFit
    const longer = Math.max(1, OWN_SHARE * times)
    const coefficients = Array.from(known.coefficients, (each) => longer * each)
    const stretched = new FadingFit(coefficients, FADE, FLOOR_MS)
    stretched.count = Math.max(known.count, ENOUGH)
    this.#alone = stretched
    this.#forgetLevels()
    return longer
  }

  #forgetLevels(): void {
    this.#level = { ...NO_LEVEL }
    this.#levelBefore = NO_LEVEL
  }

  /** The time of a request that is alone. */
  aloneMs(tokens: number): number {
    return this.#alone === null ? Infinity : this.#alone.predict([1, tokens / KILO])
  }

  /** The longest time to the first token that is no sign of a queue; Infinity before the first answer. */
  dueMs(tokens: number): number {
    return this.#due(this.aloneMs(tokens))
  }

  /** The same where a recent long prompt may be in front. */
  dueBehindMs(tokens: number, nowMs: number): number {
    const dueMs = this.dueMs(tokens)
    return nowMs < this.#longestUntilMs ? Math.max(dueMs, this.#due(this.#longestMs)) : dueMs
  }

  /** A prompt was sent or has its first token. */
  met(tokens: number, nowMs: number): void {
    if (!this.isKnown) return
    const ms = this.aloneMs(tokens)
    if (ms < this.#longestMs && nowMs < this.#longestUntilMs) return
    this.#longestMs = ms
    this.#longestUntilMs = nowMs + this.#due(ms)
  }

  #due(ms: number): number {
    const unsure = FIRST_SLOWER / (this.#alone?.count ?? 1)
    return Math.max(this.#slower, unsure, EXCESS_ROOM * this.#excess) * ms + GRACE_MS
  }
}

function withTime(fit: FadingFit | null, tokens: number, elapsedMs: number): FadingFit {
  const features = [1, tokens / KILO]
  const known = fit ?? firstFit(tokens, elapsedMs)
  known.add(features, elapsedMs)
  return known
}

/** The guess is scaled to the first request: the fit weighs by its predictions, and a bad one would weigh most. */
function firstFit(tokens: number, elapsedMs: number): FadingFit {
  const scale = Math.max(elapsedMs, FLOOR_MS) / (GUESS_MS + GUESS_PER_TOKEN_MS * tokens)
  return new FadingFit([scale * GUESS_MS, scale * KILO * GUESS_PER_TOKEN_MS], FADE, FLOOR_MS)
}
