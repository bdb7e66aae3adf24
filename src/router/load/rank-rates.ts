/**
 * Learns how fast each rank is: milliseconds to the first token as a function of the prompt tokens to compute, and
 * milliseconds of a decode step as a function of its requests and context tokens.
 *
 * The two functions (linear) are learned from all ranks of the pool; each rank has only one factor for prefill and
 * one for steps. So a rank with few measurements is assumed to be as fast as its pool, a slow one is known after a
 * few prompts, and noise cannot make equal ranks look very different. A pool without measurements uses `GUESS`, or
 * the rates that its ranks report themselves. Predictions are compared with the measured times.
 */
import type { EnginePace } from '../../request/index.ts'
import { FadingFit, PULL } from '../rates/fading-fit.ts'
import { PredictionError } from '../rates/prediction-error.ts'
import { RankFactors } from '../rates/rank-factors.ts'
import { StartingPaces } from '../rates/starting-paces.ts'
import { UntriedRanks } from '../rates/untried-ranks.ts'

const GUESS = { prefill: 5, perToken: 0.1, step: 10, perRequest: 0.1, perContextToken: 0 }
/**
 * Initial shares: of the predicted wait for other prompts, and of the decode steps in progress, that a first token
 * takes.
 */
const GUESS_SHARES = { wait: 1, step: 1 }
/**
 * Ridge weights. Both shares are held near their initial values, which is what an engine does: few prompts wait, and
 * steps vary little, so that shares learned freely would follow chance.
 */
const SHARE_PULLS = [PULL, PULL, 1, 3]
/** The first measured steps show their length, not what a request or a context token adds to it. */
const STEP_BELIEFS = [0, 1, 1]
/** Step times of answers with fewer tokens count less; and those with a smaller weight not at all. */
const STEP_TOKENS = 8
const STEP_SHARE_MIN = 0.1
const GUESS_OUTPUT = 128
const GUESS_PROMPT = 500
/** Decay factor of older observations of the pool, per new observation. */
const POOL_FADE = 0.99
/** First tokens needed before requests are refused or preferred by predictions. */
const KNOWN_AFTER = 8
/** Decay factor of the measured pace of tokens, per completed request. */
const PACE_FADE = 0.95
/** Weight of the newest measurement of waits inside workers. */
const INSIDE_GAIN = 0.1
/** Limit of a single relative error of the predicted pace. */
const PACE_ERROR_MAX = 10
const PREFILL_FLOOR_MS = 5
/** No engine computes prompts faster; of ranks whose speed does not show, the one with more of the prompt is preferred. */
const PER_TOKEN_FLOOR_MS = 0.01
const STEP_FLOOR_MS = 0.5
/** Token features are in thousands, so that all coefficients have similar magnitudes. */
const KILO = 1000
/** Rates that ranks report count like observations at these prompt lengths, request counts and context sizes. */
const START_TOKENS = [50, 500, 5000]
const START_REPEATS = 3
const START_REQUESTS = [1, 8, 32]
const START_CONTEXTS = [0, 2000]

export class RankRates {
  readonly untried = new UntriedRanks()
  readonly #prefillOf = new RankFactors()
  readonly #stepOf = new RankFactors()
  /** Rates of the pool's average rank. */
  prefillMs = GUESS.prefill
  msPerToken = GUESS.perToken
  stepMs = GUESS.step
  stepMsPerRequest = GUESS.perRequest
  stepMsPerContextToken = GUESS.perContextToken
  /** Share of a predicted wait that really passes: prompts that wait together are computed together. */
  waitShare = GUESS_SHARES.wait
  /** Number of decode steps in progress that a first token waits for. */
  stepShare = GUESS_SHARES.step
  #prefill = prefillFit([GUESS.prefill, KILO * GUESS.perToken])
  #step = stepFit([GUESS.step, GUESS.perRequest, KILO * GUESS.perContextToken])
  readonly #starting = new StartingPaces()
  /** How often ranks were compared anew because another one has joined. */
  #compared = 0
  #outputTokens = GUESS_OUTPUT
  #prompts = 0
  #promptTokens = 0
  #cachedTokens = 0
  readonly #error = new PredictionError()
  /** Number of first tokens that the rates were learned from, and when there were enough of them. */
  #seen = 0
  #ends = 0
  #shownMs = Infinity
  /** Ratio of the time between tokens to the pure step time: prefills of other requests run in between. */
  #paceShare = 1
  #paceError = 0
  #paces = 0
  #insideMs = 0

  /** By slot: prefill and step times relative to the pool. */
  get prefillFactor(): Float64Array {
    return this.#prefillOf.values
  }

  get stepFactor(): Float64Array {
    return this.#stepOf.values
  }

  /** A counter that changes whenever an update of one rank has also changed the factors of others. */
  get ages(): number {
    return this.#prefillOf.ages + this.#stepOf.ages + this.#compared
  }

  /** Expected output tokens of a request that does not give them. */
  get outputTokens(): number {
    return this.#outputTokens
  }

  /**
   * Share of the prompt tokens that needed no computation on the rank they were sent to. Tokens in host memory and on
   * disk count with their tier's weight, as in the prompts from which `msPerToken` is learned.
   */
  get reuseShare(): number {
    return this.#promptTokens === 0 ? 0 : this.#cachedTokens / this.#promptTokens
  }

  /**
   * Predicted first-token time of a request of usual length that arrives now, on the rank with the least work ahead.
   * `waitingTokens`: prompt tokens in the router's queue. Null before the first measurement.
   */
  usualTtftMs(
    slots: readonly number[],
    tokensAt: (slot: number) => number,
    waitingTokens: number,
  ): number | null {
    if (this.#prompts === 0 || slots.length === 0) return null
    const before = this.usualPromptTokens + waitingTokens / slots.length
    return slots.reduce(
      (least, slot) => Math.min(least, this.ttftMs(slot, tokensAt(slot) + before)),
      Infinity,
    )
  }

  /**
   * True while predictions are so wrong that blocks are the better guide; false again once they improved clearly.
   */
  get isLost(): boolean {
    return this.#error.isLost
  }

  /**
   * Mean error of predicted first-token times (geometric mean, recent ones weigh more): 1 means twice as long, or
   * half as long, as predicted. Null before the first comparison.
   */
  get ttftError(): number | null {
    return this.#error.mean
  }

  /** Predicted first-token time of a prompt with this many uncached tokens on an idle, average rank. */
  idleTtftMs(tokens: number): number {
    return this.prefillMs + this.msPerToken * tokens
  }

  /** Uncached tokens of a usual prompt. */
  get usualPromptTokens(): number {
    if (this.#prompts === 0) return GUESS_PROMPT
    return (this.#promptTokens - this.#cachedTokens) / this.#prompts
  }

  /** Recent average wait of requests inside workers, for a place or for the prompts of others. */
  get insideMs(): number {
    return this.#insideMs
  }

  /** Records any first token, also of a request that waited for a place. */
  answered(tokens: number, elapsedMs: number): void {
    const waitedMs = Math.max(elapsedMs - this.idleTtftMs(tokens), 0)
    this.#insideMs += INSIDE_GAIN * (waitedMs - this.#insideMs)
  }

  /** First tokens that the rates were learned from. */
  get firstTokens(): number {
    return this.#seen
  }

  /** True if predictions may be used: enough measurements with a small error, or rates reported by the ranks. */
  get isTrusted(): boolean {
    return (this.hasShown || this.#starting.count > 0) && !this.isLost
  }

  /**
   * True if there are enough measurements to refuse requests by prediction; rates reported by the ranks are not
   * enough.
   */
  get hasShown(): boolean {
    return this.#seen >= KNOWN_AFTER
  }

  /** True if ranks can be priced in milliseconds: a speed was measured, or the ranks have reported theirs. */
  knows(tracksPrefill: boolean): boolean {
    if (this.#starting.count > 0) return true
    return tracksPrefill ? this.#seen > 0 : this.#paces > 0
  }

  /** True if first tokens can be predicted at all. */
  get predicts(): boolean {
    return this.#seen > 0 || this.#starting.count > 0
  }

  /** Mean relative error of the predicted time between tokens; null: too few measurements. */
  get itlError(): number | null {
    return this.#paces < KNOWN_AFTER ? null : this.#paceError
  }

  /** Predicted mean time between tokens with this many requests on the rank; 0 if nothing is known. */
  itlMs(slot: number, requests: number, contextTokens: number): number {
    if (this.#paces < KNOWN_AFTER && this.#starting.count === 0) return 0
    return this.#paceShare * this.stepMsAt(slot, requests, contextTokens)
  }

  /** Records the time between tokens of a request, for which a step time of `stepMs` was predicted. */
  paceSeen(itlMs: number, stepMs: number): void {
    const share = itlMs / Math.max(stepMs, 0.01)
    const error = Math.abs(this.#paceShare * stepMs - itlMs) / Math.max(itlMs, 0.01)
    const isFirst = this.#paces++ === 0
    this.#paceShare = isFirst ? share : mixed(this.#paceShare, share)
    // The very first prediction is a guess and does not count.
    this.#paceError = isFirst ? 0 : mixed(this.#paceError, Math.min(error, PACE_ERROR_MAX))
  }

  /** Number of prefill observations of the rank. */
  seen(slot: number): number {
    return this.#prefillOf.countOf(slot)
  }

  /** A new rank uses this slot. `pace`: the rates that it reports itself. */
  join(slot: number, pace: EnginePace | null = null): void {
    this.#prefillOf.join(slot)
    this.#stepOf.join(slot)
    this.untried.join(slot, pace !== null)
    this.#starting.set(slot, pace, this.#seen > 0, (at, promptLog, stepLog) => {
      if (at !== slot) this.#compared++
      this.#prefillOf.believe(at, promptLog)
      this.#stepOf.believe(at, stepLog)
    })
    if (pace !== null) this.#start()
  }

  leave(slot: number): void {
    this.untried.measured(slot)
    this.#starting.set(slot, null, true, () => undefined)
  }

  /** Starts with the rates that the ranks report; measurements replace them. */
  #start(): void {
    const pace = this.#starting.middle()
    if (pace === null) return
    if (this.#seen === 0) {
      this.#prefill = prefillFit([pace.promptMs, KILO * pace.promptTokenMs])
      for (const tokens of START_TOKENS) {
        const ms = pace.promptMs + pace.promptTokenMs * tokens
        for (let i = 0; i < START_REPEATS; i++) this.#prefill.add([1, tokens / KILO, 0, 0], ms)
      }
      this.#readPrefill()
    }
    if (this.#paces > 0) return
    const { stepMs, stepRequestMs, stepContextTokenMs } = pace
    this.#step = stepFit([stepMs, stepRequestMs, KILO * stepContextTokenMs])
    for (const requests of START_REQUESTS) {
      for (const contextTokens of START_CONTEXTS) {
        const contexts = requests * contextTokens
        const ms = stepMs + stepRequestMs * requests + stepContextTokenMs * contexts
        this.#step.add([1, requests, contexts / KILO], ms)
      }
    }
    this.#readStep()
  }

  #readPrefill(): void {
    this.prefillMs = this.#prefill.coefficients[0] as number
    const perToken = (this.#prefill.coefficients[1] as number) / KILO
    this.msPerToken = Math.max(perToken, PER_TOKEN_FLOOR_MS)
    this.waitShare = this.#prefill.coefficients[2] as number
    this.stepShare = this.#prefill.coefficients[3] as number
  }

  #readStep(): void {
    const [step = 0, perRequest = 0, perKilo = 0] = this.#step.coefficients
    this.stepMs = step
    this.stepMsPerRequest = perRequest
    this.stepMsPerContextToken = perKilo / KILO
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

  /** Predicted time until one of `places` batch places is free if `excess` requests come first. */
  placeMs(slot: number, excess: number, places: number, contextTokens: number): number {
    if (excess === 0) return 0
    const steps = excess * this.#outputTokens
    return (steps * this.stepMsAt(slot, places, contextTokens)) / this.endsApart(places)
  }

  /**
   * Of a batch of this many, how many end within the time of one answer, one after the other. Until answers have ended their
   * length is not known, and a batch may have begun together: a place elsewhere is better then.
   */
  endsApart(places: number): number {
    return this.#ends < KNOWN_AFTER ? 1 : places
  }

  /**
   * Predicted first-token time with this many uncached tokens, a predicted wait, and the duration of a decode step
   * there.
   */
  predictedTtftMs(slot: number, tokens: number, waitMs: number, stepMs: number): number {
    return this.ttftMs(slot, tokens) + this.waitShare * waitMs + this.stepShare * stepMs
  }

  /**
   * Records a first token: its own uncached tokens, the elapsed time, the predicted wait `waitMs` for prompts before
   * it, the duration `stepMs` of a decode step there, and when it was sent.
   */
  firstToken(
    slot: number,
    tokens: number,
    elapsedMs: number,
    waitMs = 0,
    stepMs = 0,
    sentMs = Infinity,
  ): void {
    this.untried.measured(slot)
    const predicted = this.predictedTtftMs(slot, tokens, waitMs, stepMs)
    const isEarly = sentMs < this.#shownMs && this.#starting.count === 0
    this.#error.add(elapsedMs, this.predicts ? predicted : null, isEarly)
    if (++this.#seen === KNOWN_AFTER) this.#shownMs = sentMs + elapsedMs
    const factor = this.prefillFactor[slot] as number
    const features = [1, tokens / KILO, waitMs / factor, stepMs / factor]
    const ratio = Math.max(elapsedMs, 0.1) / Math.max(this.#prefill.predict(features), 0.1)
    // The more a request waited for others, the less it says about the rank itself.
    const own = factor * (this.prefillMs + this.msPerToken * tokens)
    this.#prefillOf.add(slot, ratio, own / Math.max(own + waitMs, Number.MIN_VALUE))
    this.#prefill.add(features, elapsedMs / this.#prefillOf.relative(slot))
    this.#readPrefill()
  }

  /**
   * Records a completed request: average step time with the average number of requests and context tokens.
   * `decodeShare`: share of that time that was not spent on prompts of other requests; the less, the less it says.
   */
  ended(
    slot: number,
    requests: number,
    stepMs: number,
    outputTokens: number,
    contextTokens = 0,
    decodeShare = 1,
  ): void {
    this.#ends++
    this.#outputTokens = 0.95 * this.#outputTokens + 0.05 * outputTokens
    const share = decodeShare * Math.min((outputTokens - 1) / STEP_TOKENS, 1)
    if (share < STEP_SHARE_MIN) return
    const features = [1, requests, contextTokens / KILO]
    const ratio = Math.max(stepMs, 0.01) / Math.max(this.#step.predict(features), 0.01)
    this.#stepOf.add(slot, ratio, share)
    this.#step.add(features, stepMs / this.#stepOf.relative(slot), share)
    this.#readStep()
  }
}

const mixed = (before: number, now: number): number => PACE_FADE * before + (1 - PACE_FADE) * now

function prefillFit(line: readonly [prefill: number, perKilo: number]): FadingFit {
  const prior = [...line, GUESS_SHARES.wait, GUESS_SHARES.step]
  return new FadingFit(prior, POOL_FADE, PREFILL_FLOOR_MS, SHARE_PULLS)
}

function stepFit(prior: readonly number[]): FadingFit {
  return new FadingFit(prior, POOL_FADE, STEP_FLOOR_MS, [], STEP_BELIEFS)
}
