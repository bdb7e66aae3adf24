/**
 * The work ahead of each rank, in milliseconds: until when its queued prompts are computed, how many requests decode
 * and how large their context is. Updated with every booking, so that a decision only reads columns.
 *
 * The prefill time of a prompt is predicted at dispatch, and again when the learned rates change clearly. When one
 * finishes early or late, the end of the remaining ones is computed again: from now on, for the sum of their predicted
 * times. If prompts are long overdue, the rank is slow or stuck, and it is expected to need the overdue time once more,
 * whether or not more prompts are sent to it.
 */
import { restOfStep } from '../rates/step-phase.ts'

const MIN_CAPACITY = 16
/** A prefill without a first token is expected to need at least this share of its predicted time. */
const LATE_SHARE = 0.1
/** Time constant over which prompts count for the share of prefill; and the largest value of that share. */
const RECENT_MS = 2000
const PROMPT_SHARE_MAX = 0.8
const PER_RECENT = 1 / RECENT_MS
const STRETCH_MAX = 1 / (1 - PROMPT_SHARE_MAX)
/** Predicted times of open prompts are corrected when the rates have changed by this share. */
const CLEAR_CHANGE = 0.2

export class RankBacklog {
  readonly lateShare = LATE_SHARE
  /**
   * Predicted end of the queued prompts (clock time), and the sum of the predicted times of those without a first
   * token.
   */
  untilMs = new Float64Array(MIN_CAPACITY)
  openMs = new Float64Array(MIN_CAPACITY)
  open = new Int32Array(MIN_CAPACITY)
  /**
   * Queued prompts (of `open`) that are computed together in the next step: they arrived while others were computed,
   * or are longer than a step, so that their last part is computed with what arrives meanwhile.
   */
  waiting = new Int32Array(MIN_CAPACITY)
  /** When the first queued prompt is expected to begin, and how uncertain that is. */
  beginsMs = new Float64Array(MIN_CAPACITY)
  beginSpreadMs = new Float64Array(MIN_CAPACITY)
  /** When a step was last seen to end: with a first token or the end of a request. */
  stepEndMs = new Float64Array(MIN_CAPACITY)
  /** No other frontend sends requests to the same ranks. */
  isAlone = true
  /** Prefill milliseconds sent to the rank, decayed with time; as of `sentMs`. */
  sentWork = new Float64Array(MIN_CAPACITY)
  sentMs = new Float64Array(MIN_CAPACITY)
  /** Queued prompts that are longer than one step. */
  long = new Int32Array(MIN_CAPACITY)
  /** Work that other routers have sent, from the rank's own reports. */
  othersUntilMs = new Float64Array(MIN_CAPACITY)
  otherRequests = new Int32Array(MIN_CAPACITY)
  /** Context tokens (prompt and output) of the requests on the rank. */
  contextTokens = new Float64Array(MIN_CAPACITY)
  requests = new Int32Array(MIN_CAPACITY)
  /** Time integrals of the request count and context tokens, and total prefill time, all up to `sinceMs`. */
  requestMs = new Float64Array(MIN_CAPACITY)
  contextMs = new Float64Array(MIN_CAPACITY)
  prefilledMs = new Float64Array(MIN_CAPACITY)
  sinceMs = new Float64Array(MIN_CAPACITY)

  /** From then on the first queued prompt has surely begun; 0: it has, or there is none. */
  beganMs(slot: number): number {
    if (this.open[slot] === 0) return 0
    return (this.beginsMs[slot] as number) + 0.5 * (this.beginSpreadMs[slot] as number)
  }

  /** Prompts that wait behind others, over all ranks. */
  behind = 0
  /** A time that was predicted when this was x is now expected to be `scale / x` times as long. */
  scale = 1
  #scaledStartMs = 0
  #scaledPerToken = 0

  /**
   * The rates of prefill are now these: if a prompt of `tokens` takes clearly more or less time than before, the times of
   * all open prompts change with it. Returns whether they did.
   */
  rescale(startMs: number, perToken: number, tokens: number, nowMs: number): boolean {
    const beforeMs = this.#scaledStartMs + this.#scaledPerToken * tokens
    const ratio = (startMs + perToken * tokens) / beforeMs
    if (ratio > 1 - CLEAR_CHANGE && ratio < 1 + CLEAR_CHANGE) return false
    this.#scaledStartMs = startMs
    this.#scaledPerToken = perToken
    // The first rates are those that the open prompts were predicted with.
    if (beforeMs <= 0) return false
    this.scale *= ratio
    for (let slot = 0; slot < this.openMs.length; slot++) {
      this.sentWork[slot] = (this.sentWork[slot] as number) * ratio
      this.openMs[slot] = (this.openMs[slot] as number) * ratio
      const left = (this.untilMs[slot] as number) - nowMs
      if (left > 0) this.untilMs[slot] = nowMs + left * ratio
    }
    return true
  }

  reserve(slot: number): void {
    const { length } = this.untilMs
    if (slot < length) return
    const size = Math.max(slot + 1, 2 * length)
    this.untilMs = grown(this.untilMs, new Float64Array(size))
    this.openMs = grown(this.openMs, new Float64Array(size))
    this.beginsMs = grown(this.beginsMs, new Float64Array(size))
    this.beginSpreadMs = grown(this.beginSpreadMs, new Float64Array(size))
    this.stepEndMs = grown(this.stepEndMs, new Float64Array(size))
    this.sentWork = grown(this.sentWork, new Float64Array(size))
    this.sentMs = grown(this.sentMs, new Float64Array(size))
    this.open = grown(this.open, new Int32Array(size))
    this.waiting = grown(this.waiting, new Int32Array(size))
    this.long = grown(this.long, new Int32Array(size))
    this.othersUntilMs = grown(this.othersUntilMs, new Float64Array(size))
    this.otherRequests = grown(this.otherRequests, new Int32Array(size))
    this.contextTokens = grown(this.contextTokens, new Float64Array(size))
    this.requests = grown(this.requests, new Int32Array(size))
    this.requestMs = grown(this.requestMs, new Float64Array(size))
    this.contextMs = grown(this.contextMs, new Float64Array(size))
    this.prefilledMs = grown(this.prefilledMs, new Float64Array(size))
    this.sinceMs = grown(this.sinceMs, new Float64Array(size))
  }

  /** A new rank uses this slot. */
  join(slot: number): void {
    this.reserve(slot)
    this.leave(slot)
  }

  /** The rank is gone, and its work with it. */
  leave(slot: number): void {
    this.behind -= Math.max((this.open[slot] as number) - 1, 0)
    this.untilMs[slot] = this.openMs[slot] = this.othersUntilMs[slot] = 0
    this.open[slot] = this.otherRequests[slot] = this.requests[slot] = 0
    this.waiting[slot] = this.long[slot] = 0
    this.beginsMs[slot] = this.beginSpreadMs[slot] = this.stepEndMs[slot] = 0
    this.sentWork[slot] = this.sentMs[slot] = 0
    this.contextTokens[slot] = this.requestMs[slot] = this.contextMs[slot] = 0
    this.prefilledMs[slot] = this.sinceMs[slot] = 0
  }

  /**
   * How long a prompt sent now waits for those before it. A prompt that is computed in one step with them waits for
   * their tokens, but pays the fixed cost `startMs` of a prefill step itself.
   */
  waitMs(slot: number, nowMs: number, startMs: number): number {
    const others = Math.max((this.othersUntilMs[slot] as number) - nowMs, 0)
    if (this.open[slot] === 0) return others
    const left = Math.abs((this.untilMs[slot] as number) - nowMs)
    const behind = Math.max(left, LATE_SHARE * (this.openMs[slot] as number))
    const share = this.joinShare(slot, nowMs)
    const tokensMs = Math.max((this.openMs[slot] as number) - startMs, 0)
    return others + (1 - share) * behind + share * tokensMs
  }

  /** By how much longer the queued prompts already take than predicted, as a share of the predicted time; 0: not late. */
  lateness(slot: number, nowMs: number): number {
    const lateMs = nowMs - (this.untilMs[slot] as number)
    if (this.open[slot] === 0 || lateMs <= 0) return 0
    return lateMs / Math.max(this.openMs[slot] as number, 1)
  }

  /** Including requests without a first token. */
  requestsOn(slot: number): number {
    return (this.requests[slot] as number) + (this.otherRequests[slot] as number)
  }

  /** Requests that have their first token. */
  runningOn(slot: number): number {
    return (
      (this.requests[slot] as number) +
      (this.otherRequests[slot] as number) -
      (this.open[slot] as number)
    )
  }

  add(slot: number, contextTokens: number, nowMs: number): void {
    this.#advance(slot, nowMs)
    this.requests[slot] = (this.requests[slot] as number) + 1
    this.contextTokens[slot] = (this.contextTokens[slot] as number) + contextTokens
  }

  free(slot: number, contextTokens: number, nowMs: number): void {
    this.#advance(slot, nowMs)
    const left = (this.requests[slot] as number) - 1
    this.requests[slot] = left
    this.contextTokens[slot] =
      left === 0 ? 0 : Math.max((this.contextTokens[slot] as number) - contextTokens, 0)
  }

  /**
   * Adds a prompt that takes `ms` once those before it are done. The first one begins when the step in progress ends;
   * until then other prompts can still join it. Returns true if it has to wait for a later step.
   */
  prefillSent(slot: number, prompt: SentPrompt, nowMs: number): boolean {
    const { ms, isLong, stepMs, restMs, spreadMs } = prompt
    const isIdle = this.open[slot] === 0
    const untilMs = isIdle ? nowMs + restMs + stepMs : (this.untilMs[slot] as number)
    const joins = !isIdle && !isLong && this.joinShare(slot, nowMs) >= 0.5
    if (isIdle) {
      this.beginsMs[slot] = nowMs + restMs
      this.beginSpreadMs[slot] = spreadMs
    } else this.behind++
    if ((!isIdle && !joins) || isLong) this.waiting[slot] = (this.waiting[slot] as number) + 1
    if (isLong) this.long[slot] = (this.long[slot] as number) + 1
    this.sentWork[slot] = this.#workAt(slot, nowMs) + ms
    this.sentMs[slot] = nowMs
    this.open[slot] = (this.open[slot] as number) + 1
    this.openMs[slot] = (this.openMs[slot] as number) + ms
    // A late rank stays late, and is expected to need longer by this prompt; see `waitMs`.
    this.untilMs[slot] = untilMs < nowMs ? untilMs - ms : untilMs + ms
    return !isIdle && !joins
  }

  /** Expected time until the step in progress has ended and a prompt sent now is computed, if it waits for no other. */
  restMs(slot: number, stepMs: number, nowMs: number): number {
    if (this.open[slot] === 0) return restOfStep(nowMs - (this.stepEndMs[slot] as number), stepMs)
    return this.joinShare(slot, nowMs) * Math.max((this.beginsMs[slot] as number) - nowMs, 0)
  }

  /** Recent share of the rank's time spent on prefill, during which its decode requests stand still. */
  promptShare(slot: number, nowMs: number): number {
    return Math.min(this.#workAt(slot, nowMs) / RECENT_MS, PROMPT_SHARE_MAX)
  }

  /** Decays approximately like e⁻ˣ, without the cost of `Math.exp` for a thousand ranks. */
  #workAt(slot: number, nowMs: number): number {
    const age = Math.max(nowMs - (this.sentMs[slot] as number), 0) / RECENT_MS
    return (this.sentWork[slot] as number) / (1 + age * (1 + age / 2))
  }

  /** Probability that the first queued prompt has not begun, so that a prompt sent now is computed with it. */
  joinShare(slot: number, nowMs: number): number {
    const spread = this.beginSpreadMs[slot] as number
    if (this.open[slot] === 0 || spread === 0) return 0
    const share = 0.5 + ((this.beginsMs[slot] as number) - nowMs) / spread
    return share <= 0 ? 0 : Math.min(share, 1)
  }

  /** `nextStartMs`: fixed cost of the step in which the prompts that waited are computed now. */
  prefillDone(slot: number, { ms, isLong, nextStartMs }: DonePrompt, nowMs: number): void {
    if (isLong) this.long[slot] = (this.long[slot] as number) - 1
    const open = (this.open[slot] as number) - 1
    const left = open === 0 ? 0 : Math.max((this.openMs[slot] as number) - ms, 0)
    if (open > 0) this.behind--
    this.open[slot] = open
    this.openMs[slot] = left
    this.untilMs[slot] = nowMs + left + (open === 0 ? 0 : nextStartMs)
    this.waiting[slot] = this.long[slot] as number
    this.beginsMs[slot] = this.beginSpreadMs[slot] = 0
    this.stepEndMs[slot] = nowMs
    this.prefilledMs[slot] = (this.prefilledMs[slot] as number) + ms
  }

  /**
   * When a step was seen to end, to predict when a prompt that is sent now begins. Unknown beside other frontends: each
   * would send its prompts to the rank whose step ends next, to join it there, before they hear from each other. Two
   * frontends with messages of 2 ms: p90 TTFT of short prompts 1.42 times that of one frontend, 1.16 times without.
   */
  phaseMs(slot: number): number {
    return this.isAlone ? (this.stepEndMs[slot] as number) : -Infinity
  }

  /** Load that the rank reports beyond what this router has sent. */
  others(slot: number, requests: number, prefillMs: number, nowMs: number): void {
    this.#advance(slot, nowMs)
    this.otherRequests[slot] = Math.max(requests, 0)
    this.othersUntilMs[slot] = prefillMs > 0 ? nowMs + prefillMs : 0
  }

  /** Another router announced a prompt of `ms`: prefill of others that the worker has reported is taken to be this prompt. */
  explain(slot: number, ms: number, nowMs: number): void {
    const left = (this.othersUntilMs[slot] as number) - nowMs
    if (left <= 0) return
    this.#advance(slot, nowMs)
    this.otherRequests[slot] = Math.max((this.otherRequests[slot] as number) - 1, 0)
    this.othersUntilMs[slot] = left > ms ? nowMs + left - ms : 0
  }

  /** Brings the integrals up to `nowMs` and returns them. */
  at(slot: number, nowMs: number): RankMoment {
    this.#advance(slot, nowMs)
    return {
      requestMs: this.requestMs[slot] as number,
      contextMs: this.contextMs[slot] as number,
      prefilledMs: this.prefilledMs[slot] as number,
    }
  }

  #advance(slot: number, nowMs: number): void {
    const elapsed = nowMs - (this.sinceMs[slot] as number)
    if (elapsed <= 0) return
    this.sinceMs[slot] = nowMs
    this.requestMs[slot] = (this.requestMs[slot] as number) + elapsed * this.requestsOn(slot)
    this.contextMs[slot] =
      (this.contextMs[slot] as number) + elapsed * (this.contextTokens[slot] as number)
  }
}

/**
 * How many times longer decode takes because of prefills between its steps: 1 / (1 − `promptShare`), with one division per
 * rank. `work`: prefill milliseconds sent to the rank; `sinceMs`: time since the last of it was sent.
 */
export function stretchOf(work: number, sinceMs: number): number {
  const age = sinceMs * PER_RECENT
  const faded = age > 0 ? 1 + age * (1 + 0.5 * age) : 1
  const share = work * PER_RECENT
  return share > PROMPT_SHARE_MAX * faded ? STRETCH_MAX : faded / (faded - share)
}

/** The predicted times of a prompt; see `sentPromptOf`. */
export interface SentPrompt {
  readonly ms: number
  /** Longer than one engine step. */
  readonly isLong: boolean
  /** Duration of a decode step on the rank; 0 if nothing decodes. */
  readonly stepMs: number
  /** Until the decode step in progress ends, and how uncertain that is. */
  readonly restMs: number
  readonly spreadMs: number
}

interface DonePrompt {
  /** Its predicted time. */
  readonly ms: number
  readonly isLong: boolean
  readonly nextStartMs: number
}

/** Integrals of one rank since it joined; the difference of two moments describes the time between them. */
export interface RankMoment {
  readonly requestMs: number
  readonly contextMs: number
  readonly prefilledMs: number
}

function grown<T extends { set(from: T): void }>(from: T, to: T): T {
  to.set(from)
  return to
}
