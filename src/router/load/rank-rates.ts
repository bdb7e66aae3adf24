/**
 * How fast each rank is, learned from what it does: milliseconds until a first token against the prompt tokens before it,
 * milliseconds of a step against the requests in it and their contexts.
 *
 * What is common to a pool (the shape of the two lines) is learned from all of its ranks, how fast a rank is beside it from
 * the rank alone: one factor for prompts, one for steps. So a rank that has done little is as fast as its pool, a slow
 * one is known after a few prompts, and equal ranks are told apart by noise only as far as one number can be. A pool that
 * nothing is known of has the rates of `GUESS`. What is predicted is compared with what comes.
 */
import { FadingFit, PULL } from './fading-fit.ts'

const GUESS = { prefill: 5, perToken: 0.1, step: 10, perRequest: 0.1, perContextToken: 0 }
/** Of the time that a prompt is predicted to wait for others, and of the steps of those that decode where it goes. */
const GUESS_SHARES = { wait: 1, step: 1 }
/** How much both shares are held where they are assumed: steps hardly differ, so they are hard to tell from what every prompt takes. */
const SHARE_PULLS = [PULL, PULL, 0.01, 0.03]
const GUESS_OUTPUT = 128
/** Of a pool's lines, of a rank's factors: what an observation counts after the next one. */
const POOL_FADE = 0.99
const RANK_FADE = 0.96
/** So many observations of the pool's pace weigh as much as what a rank has shown. */
const SHRINK = 2
/** How far a single observation may move what a rank is believed to be (logarithm of its factor). */
const STEP_LOG = 1
/** How far single observations of one rank lie apart: a rank is told from its pool only by more than chance. */
const NOISE_LOG = 0.25
/** After so many observations for each rank, what is known of all of them fades: who was slow is tried again. */
const AGE_EVERY = 32
const AGE_FADE = 0.8
/** Mean relative error above which predictions are not used, and below which they are again; asked after so many. */
const LOST = 1
const FOUND = 0.5
const TRUST_AFTER = 64
const ERROR_MAX = 10
/** So many first tokens have to have come before anybody is refused, or preferred, by what is predicted. */
const KNOWN_AFTER = 8
/** Of the pace of tokens: what an end counts after the next one. */
const PACE_FADE = 0.95
/** Of the waits inside workers: what the newest one counts. */
const INSIDE_GAIN = 0.1
const PREFILL_FLOOR_MS = 5
const STEP_FLOOR_MS = 0.5
const MIN_CAPACITY = 16
/** Tokens are counted in thousands inside, so that all coefficients have the same size. */
const KILO = 1000

export class RankRates {
  readonly #prefillOf = new RankFactors()
  readonly #stepOf = new RankFactors()
  /** Of the pool. */
  prefillMs = GUESS.prefill
  msPerToken = GUESS.perToken
  stepMs = GUESS.step
  stepMsPerRequest = GUESS.perRequest
  stepMsPerContextToken = GUESS.perContextToken
  /** How much of a predicted wait comes true: prompts that wait together are computed together. */
  waitShare = GUESS_SHARES.wait
  /** Steps of those that decode there which a first token takes. */
  stepShare = GUESS_SHARES.step
  readonly #prefill = new FadingFit(
    [GUESS.prefill, KILO * GUESS.perToken, GUESS_SHARES.wait, GUESS_SHARES.step],
    POOL_FADE,
    PREFILL_FLOOR_MS,
    SHARE_PULLS,
  )
  readonly #step = new FadingFit(
    [GUESS.step, GUESS.perRequest, KILO * GUESS.perContextToken],
    POOL_FADE,
    STEP_FLOOR_MS,
  )
  #outputTokens = GUESS_OUTPUT
  #prompts = 0
  #promptTokens = 0
  #cachedTokens = 0
  #error: number | null = null
  #seen = 0
  #isLost = false
  /** Of tokens beside steps alone: prompts of others are computed between them. */
  #paceShare = 1
  #paceError = 0
  #paces = 0
  #insideMs = 0

  /** By slot: how many times longer than in the pool prompts and steps take. */
  get prefillFactor(): Float64Array {
    return this.#prefillOf.values
  }

  get stepFactor(): Float64Array {
    return this.#stepOf.values
  }

  /** Output of a request that does not say how much it expects. */
  get outputTokens(): number {
    return this.#outputTokens
  }

  /** Of prompt tokens, those that were cached where they were sent. */
  get reuseShare(): number {
    return this.#promptTokens === 0 ? 0 : this.#cachedTokens / this.#promptTokens
  }

  /**
   * Of a request of the usual length that came now and went where least is before it; `waitingTokens`: of all that wait.
   * Null: none has come yet.
   */
  usualTtftMs(
    slots: readonly number[],
    tokensAt: (slot: number) => number,
    waitingTokens: number,
  ): number | null {
    if (this.#prompts === 0 || slots.length === 0) return null
    const own = (this.#promptTokens - this.#cachedTokens) / this.#prompts
    const before = own + waitingTokens / slots.length
    return slots.reduce(
      (least, slot) => Math.min(least, this.ttftMs(slot, tokensAt(slot) + before)),
      Infinity,
    )
  }

  /** Predictions are so far off that load alone says more; they count again when they have become much better. */
  get isLost(): boolean {
    return this.#isLost
  }

  /** Mean relative error of predicted first tokens, newer ones weigh more; null: none has come. */
  get ttftError(): number | null {
    return this.#error
  }

  /** Of a prompt with so many tokens to compute where nothing else is, at a rank like most. */
  idleTtftMs(tokens: number): number {
    return this.prefillMs + this.msPerToken * tokens
  }

  /** What requests have waited inside workers of late, for a place or for others' prompts. */
  get insideMs(): number {
    return this.#insideMs
  }

  /** Any first token, also of one that waited for a place. */
  answered(tokens: number, elapsedMs: number): void {
    const waitedMs = Math.max(elapsedMs - this.idleTtftMs(tokens), 0)
    this.#insideMs += INSIDE_GAIN * (waitedMs - this.#insideMs)
  }

  /** First tokens that were learned from. */
  get firstTokens(): number {
    return this.#seen
  }

  /** Enough has come, and predictions are near to it. */
  get isTrusted(): boolean {
    return this.#seen >= KNOWN_AFTER && !this.#isLost
  }

  /** How far a predicted time between tokens is from what comes, as a share of it; null: too few have come. */
  get itlError(): number | null {
    return this.#paces < KNOWN_AFTER ? null : this.#paceError
  }

  /** Mean time between tokens of a request among so many; 0: nothing is known of it. */
  itlMs(slot: number, requests: number, contextTokens: number): number {
    if (this.#paces < KNOWN_AFTER) return 0
    return this.#paceShare * this.stepMsAt(slot, requests, contextTokens)
  }

  /** The tokens of a request came so far apart, where a step was predicted to take `stepMs`. */
  paceSeen(itlMs: number, stepMs: number): void {
    const share = itlMs / Math.max(stepMs, 0.01)
    const error = Math.abs(this.#paceShare * stepMs - itlMs) / Math.max(itlMs, 0.01)
    const isFirst = this.#paces++ === 0
    this.#paceShare = isFirst ? share : mixed(this.#paceShare, share)
    // The very first prediction is a guess.
    this.#paceError = isFirst ? 0 : mixed(this.#paceError, Math.min(error, ERROR_MAX))
  }

  /** Observations of the rank's prompts. */
  seen(slot: number): number {
    return this.#prefillOf.countOf(slot)
  }

  /** A new rank has this slot. */
  join(slot: number): void {
    this.#prefillOf.join(slot)
    this.#stepOf.join(slot)
  }

  placed(promptTokens: number, cachedTokens: number): void {
    this.#prompts = 0.99 * this.#prompts + 1
    this.#promptTokens = 0.99 * this.#promptTokens + promptTokens
    this.#cachedTokens = 0.99 * this.#cachedTokens + Math.min(cachedTokens, promptTokens)
  }

  perTokenMs(slot: number): number {
    return (this.prefillFactor[slot] as number) * this.msPerToken
  }

  ttftMs(slot: number, tokensBefore: number): number {
    return (this.prefillFactor[slot] as number) * (this.prefillMs + this.msPerToken * tokensBefore)
  }

  stepMsAt(slot: number, requests: number, contextTokens: number): number {
    const { stepMs, stepMsPerRequest, stepMsPerContextToken } = this
    return (
      (this.stepFactor[slot] as number) *
      (stepMs + stepMsPerRequest * requests + stepMsPerContextToken * contextTokens)
    )
  }

  /** Until one of so many places in a batch is free, when `excess` requests come before. */
  placeMs(slot: number, excess: number, places: number, contextTokens: number): number {
    if (excess === 0) return 0
    return (excess * this.#outputTokens * this.stepMsAt(slot, places, contextTokens)) / places
  }

  /** Of a prompt with so many tokens to compute, behind others, where a step of those that decode takes so long. */
  predictedTtftMs(slot: number, tokens: number, waitMs: number, stepMs: number): number {
    return this.ttftMs(slot, tokens) + this.waitShare * waitMs + this.stepShare * stepMs
  }

  /**
   * A first token came after so long: with so many tokens of its own to compute, behind others that were predicted to take
   * `waitMs`, where a step of those that decode took `stepMs`.
   */
  firstToken(slot: number, tokens: number, elapsedMs: number, waitMs = 0, stepMs = 0): void {
    const predicted = this.predictedTtftMs(slot, tokens, waitMs, stepMs)
    const error = Math.abs(predicted - elapsedMs) / Math.max(elapsedMs, 1)
    // Who was ten times too slow counts no more than that: one broken connection is not drift.
    const bounded = Math.min(error, ERROR_MAX)
    this.#error = this.#error === null ? bounded : 0.95 * this.#error + 0.05 * bounded
    this.#seen++
    if (this.#seen >= TRUST_AFTER) this.#isLost = this.#error > (this.#isLost ? FOUND : LOST)
    const factor = this.prefillFactor[slot] as number
    const features = [1, tokens / KILO, waitMs / factor, stepMs / factor]
    const ratio = Math.max(elapsedMs, 0.1) / Math.max(this.#prefill.predict(features), 0.1)
    // What had to wait says less of the rank than of those before it.
    const own = factor * (this.prefillMs + this.msPerToken * tokens)
    this.#prefillOf.add(slot, ratio, own / Math.max(own + waitMs, Number.MIN_VALUE))
    this.#prefill.add(features, elapsedMs / this.#prefillOf.relative(slot))
    this.prefillMs = this.#prefill.coefficients[0] as number
    this.msPerToken = (this.#prefill.coefficients[1] as number) / KILO
    this.waitShare = this.#prefill.coefficients[2] as number
    this.stepShare = this.#prefill.coefficients[3] as number
  }

  /** A request has ended: its steps took so long on average, with so many requests and tokens of context in them. */
  ended(
    slot: number,
    requests: number,
    stepMs: number,
    outputTokens: number,
    contextTokens = 0,
  ): void {
    this.#outputTokens = 0.95 * this.#outputTokens + 0.05 * outputTokens
    const features = [1, requests, contextTokens / KILO]
    const ratio = Math.max(stepMs, 0.01) / Math.max(this.#step.predict(features), 0.01)
    this.#stepOf.add(slot, ratio, 1)
    this.#step.add(features, stepMs / this.#stepOf.relative(slot))
    const [step = 0, perRequest = 0, perKilo = 0] = this.#step.coefficients
    this.stepMs = step
    this.stepMsPerRequest = perRequest
    this.stepMsPerContextToken = perKilo / KILO
  }
}

/** How many times slower than its pool each rank is, by slot. */
class RankFactors {
  values = new Float64Array(MIN_CAPACITY).fill(1)
  #logs = new Float64Array(MIN_CAPACITY)
  #counts = new Float64Array(MIN_CAPACITY)
  /** Mean logarithm: the pool's line is that of a rank in the middle. */
  #middle = 0
  #ranks = 0
  #sinceAged = 0
  #isFirst = true

  join(slot: number): void {
    const { length } = this.values
    if (slot >= length) {
      const size = Math.max(slot + 1, 2 * length)
      this.values = grown(this.values, size)
      this.#logs = grown(this.#logs, size)
      this.#counts = grown(this.#counts, size)
    }
    this.#ranks = Math.max(this.#ranks, slot + 1)
    this.values[slot] = 1
    this.#logs[slot] = this.#counts[slot] = 0
  }

  countOf(slot: number): number {
    return this.#counts[slot] ?? 0
  }

  /** What a factor is beside that of a rank in the middle. */
  relative(slot: number): number {
    return (this.values[slot] as number) / Math.exp(this.#middle)
  }

  /** It took so many times as long as the pool would have. */
  add(slot: number, ratio: number, weight: number): void {
    // The very first one sets the pool's line, whatever was guessed.
    if (this.#isFirst) {
      this.#isFirst = false
      return
    }
    const known = Math.log(this.values[slot] as number)
    const seen = known + Math.min(Math.max(Math.log(ratio) - known, -STEP_LOG), STEP_LOG)
    this.#logs[slot] = RANK_FADE * (this.#logs[slot] as number) + weight * seen
    this.#counts[slot] = RANK_FADE * (this.#counts[slot] as number) + weight
    this.#set(slot)
    this.#middle = 0.98 * this.#middle + 0.02 * Math.log(this.values[slot] as number)
    if (++this.#sinceAged >= AGE_EVERY * this.#ranks) this.#age()
  }

  #set(slot: number): void {
    const count = this.#counts[slot] as number
    const mean = (this.#logs[slot] as number) / (count + SHRINK)
    const chance = NOISE_LOG / Math.sqrt(count + 1)
    this.values[slot] = Math.exp(Math.sign(mean) * Math.max(Math.abs(mean) - chance, 0))
  }

  #age(): void {
    this.#sinceAged = 0
    for (let slot = 0; slot < this.#ranks; slot++) {
      this.#logs[slot] = AGE_FADE * (this.#logs[slot] as number)
      this.#counts[slot] = AGE_FADE * (this.#counts[slot] as number)
      this.#set(slot)
    }
  }
}

const mixed = (before: number, now: number): number => PACE_FADE * before + (1 - PACE_FADE) * now

function grown(from: Float64Array<ArrayBuffer>, size: number): Float64Array<ArrayBuffer> {
  const to = new Float64Array(size)
  to.set(from)
  return to
}
