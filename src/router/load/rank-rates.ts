/**
 * How fast each rank is, learned from what it does: milliseconds until a first token against the prompt tokens before it,
 * milliseconds of a step against the requests in it and their contexts.
 *
 * What is common to a pool (the shape of the two lines) is learned from all of its ranks, how fast a rank is beside it from
 * the rank alone: one factor for prompts, one for steps. So a rank that has done little is as fast as its pool, a slow
 * one is known after a few prompts, and equal ranks are told apart by noise only as far as one number can be. A pool that
 * nothing is known of has the rates of `GUESS`, or those that its ranks say of themselves. What is predicted is compared
 * with what comes.
 */
import type { EnginePace } from '../../request/index.ts'
import { FadingFit, PULL } from './fading-fit.ts'
import { RankFactors } from './rank-factors.ts'
import { StartingPaces } from './starting-paces.ts'

const GUESS = { prefill: 5, perToken: 0.1, step: 10, perRequest: 0.1, perContextToken: 0 }
/** Of the time that a prompt is predicted to wait for others, and of the steps of those that decode where it goes. */
const GUESS_SHARES = { wait: 1, step: 1 }
/** How much both shares are held where they are assumed: steps hardly differ, so they are hard to tell from what every prompt takes. */
const SHARE_PULLS = [PULL, PULL, 0.01, 0.03]
const GUESS_OUTPUT = 128
/** Of a pool's lines: what an observation counts after the next one. */
const POOL_FADE = 0.99
/** How far off predictions are when they are not used, and when they are again (1: by a factor of two); asked after so many. */
const LOST = 1
const FOUND = 0.5
const TRUST_AFTER = 64
const ERROR_MAX = 10
const ERROR_LOG_MAX = Math.log(1 + ERROR_MAX)
/** What a prediction counts after the next one. */
const ERROR_FADE = 0.95
/** So many first tokens have to have come before anybody is refused, or preferred, by what is predicted. */
const KNOWN_AFTER = 8
/** Of the pace of tokens: what an end counts after the next one. */
const PACE_FADE = 0.95
/** Of the waits inside workers: what the newest one counts. */
const INSIDE_GAIN = 0.1
const PREFILL_FLOOR_MS = 5
const STEP_FLOOR_MS = 0.5
/** Tokens are counted in thousands inside, so that all coefficients have the same size. */
const KILO = 1000
/** What ranks say of themselves counts as much as so many observations: at these lengths, of so many requests with such contexts. */
const START_TOKENS = [50, 500, 5000]
const START_REPEATS = 3
const START_REQUESTS = [1, 8, 32]
const START_CONTEXTS = [0, 2000]

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
  #prefill = prefillFit([GUESS.prefill, KILO * GUESS.perToken])
  #step = stepFit([GUESS.step, GUESS.perRequest, KILO * GUESS.perContextToken])
  readonly #starting = new StartingPaces()
  #outputTokens = GUESS_OUTPUT
  #prompts = 0
  #promptTokens = 0
  #cachedTokens = 0
  /** Logarithms of how many times longer, or shorter, first tokens took than predicted; and how many. */
  #errorLogs = 0
  #errors = 0
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

  /** Another number whenever factors of other ranks than the one at hand have changed. */
  get ages(): number {
    return this.#prefillOf.ages + this.#stepOf.ages
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

  /**
   * How far predicted first tokens are off, in the geometric mean, newer ones weigh more: 1 is twice as long as predicted or
   * half as long. Null: none has come that was predicted; before the first there is a guess.
   */
  get ttftError(): number | null {
    return this.#errors === 0 ? null : Math.exp(this.#errorLogs / this.#errors) - 1
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

  /** What is predicted is worth going by: enough has come and predictions are near to it, or ranks have said their pace. */
  get isTrusted(): boolean {
    return (this.hasShown || this.#starting.count > 0) && !this.#isLost
  }

  /** Enough has come to tell somebody that no goal can be met: what ranks say of themselves is not enough for that. */
  get hasShown(): boolean {
    return this.#seen >= KNOWN_AFTER
  }

  /** There is something to predict first tokens by. */
  get predicts(): boolean {
    return this.#seen > 0 || this.#starting.count > 0
  }

  /** How far a predicted time between tokens is from what comes, as a share of it; null: too few have come. */
  get itlError(): number | null {
    return this.#paces < KNOWN_AFTER ? null : this.#paceError
  }

  /** Mean time between tokens of a request among so many; 0: nothing is known of it. */
  itlMs(slot: number, requests: number, contextTokens: number): number {
    if (this.#paces < KNOWN_AFTER && this.#starting.count === 0) return 0
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

  /** A new rank has this slot. `pace`: what it says of itself. */
  join(slot: number, pace: EnginePace | null = null): void {
    this.#prefillOf.join(slot)
    this.#stepOf.join(slot)
    this.#starting.set(slot, pace, this.#seen > 0, (at, promptLog, stepLog) => {
      this.#prefillOf.believe(at, promptLog)
      this.#stepOf.believe(at, stepLog)
    })
    if (pace !== null) this.#start()
  }

  leave(slot: number): void {
    this.#starting.set(slot, null, true, () => undefined)
  }

  /** What ranks say of themselves is a pool's first line; what has come is worth more. */
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
    this.msPerToken = (this.#prefill.coefficients[1] as number) / KILO
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
    // Too long and too short count alike: of its own length a first token is never predicted too short by more than all of it.
    const apart = Math.abs(Math.log(Math.max(predicted, 1) / Math.max(elapsedMs, 1)))
    // Who was ten times too slow counts no more than that: one broken connection is not drift.
    const bounded = Math.min(apart, ERROR_LOG_MAX)
    const isGuess = !this.predicts
    if (!isGuess) {
      this.#errorLogs = ERROR_FADE * this.#errorLogs + bounded
      this.#errors = ERROR_FADE * this.#errors + 1
    }
    this.#seen++
    const error = this.ttftError ?? 0
    if (this.#seen >= TRUST_AFTER) this.#isLost = error > (this.#isLost ? FOUND : LOST)
    const factor = this.prefillFactor[slot] as number
    const features = [1, tokens / KILO, waitMs / factor, stepMs / factor]
    const ratio = Math.max(elapsedMs, 0.1) / Math.max(this.#prefill.predict(features), 0.1)
    // What had to wait says less of the rank than of those before it.
    const own = factor * (this.prefillMs + this.msPerToken * tokens)
    this.#prefillOf.add(slot, ratio, own / Math.max(own + waitMs, Number.MIN_VALUE))
    this.#prefill.add(features, elapsedMs / this.#prefillOf.relative(slot))
    this.#readPrefill()
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
    this.#readStep()
  }
}

const mixed = (before: number, now: number): number => PACE_FADE * before + (1 - PACE_FADE) * now

function prefillFit(line: readonly [prefill: number, perKilo: number]): FadingFit {
  const prior = [...line, GUESS_SHARES.wait, GUESS_SHARES.step]
  return new FadingFit(prior, POOL_FADE, PREFILL_FLOOR_MS, SHARE_PULLS)
}

function stepFit(prior: readonly number[]): FadingFit {
  return new FadingFit(prior, POOL_FADE, STEP_FLOOR_MS)
}
