/**
 * What each rank has before it, in milliseconds: until when its prompts are computed, which requests decode, over how much
 * context; kept as bookings come and go, so that a decision reads columns.
 *
 * A prompt's time is what is predicted when it is sent. When one ends early or late, what is before the others is said anew:
 * from now on, as long as theirs are predicted to take. Prompts that should have ended long ago say that the rank is slow
 * or stuck: it is expected to need as long again.
 */
const MIN_CAPACITY = 16
/** What has no first token yet takes at least this share of its time still. */
const LATE_SHARE = 0.1
/** How far back prompts count for what they take of a rank's time; and how much of it that may come to. */
const RECENT_MS = 2000
const PROMPT_SHARE_MAX = 0.8
const PER_RECENT = 1 / RECENT_MS
const STRETCH_MAX = 1 / (1 - PROMPT_SHARE_MAX)

export class RankBacklog {
  readonly lateShare = LATE_SHARE
  /** Until when the prompts sent to it are computed, as predicted; and for how long those without a token take. */
  untilMs = new Float64Array(MIN_CAPACITY)
  openMs = new Float64Array(MIN_CAPACITY)
  open = new Int32Array(MIN_CAPACITY)
  /**
   * Of the open ones, those that go on together in the next step: they came while others were computed, or are longer than
   * a step, so that their end is computed with what comes meanwhile.
   */
  waiting = new Int32Array(MIN_CAPACITY)
  /** Until when the first of the open ones has surely begun, and how long the step is that it waited for. */
  beginsMs = new Float64Array(MIN_CAPACITY)
  beginStepMs = new Float64Array(MIN_CAPACITY)
  /** Milliseconds that the prompts sent there take, the older ones count less; as of `sentMs`. */
  sentWork = new Float64Array(MIN_CAPACITY)
  sentMs = new Float64Array(MIN_CAPACITY)
  /** Longer than a step. */
  long = new Int32Array(MIN_CAPACITY)
  /** The same of what other routers have sent, by the rank's own report. */
  othersUntilMs = new Float64Array(MIN_CAPACITY)
  otherRequests = new Int32Array(MIN_CAPACITY)
  /** Of the requests there: prompts and what they have said. */
  contextTokens = new Float64Array(MIN_CAPACITY)
  requests = new Int32Array(MIN_CAPACITY)
  /** Integrals over time of requests and contexts, and the prompts computed so far, all up to `sinceMs`. */
  requestMs = new Float64Array(MIN_CAPACITY)
  contextMs = new Float64Array(MIN_CAPACITY)
  prefilledMs = new Float64Array(MIN_CAPACITY)
  sinceMs = new Float64Array(MIN_CAPACITY)

  reserve(slot: number): void {
    const { length } = this.untilMs
    if (slot < length) return
    const size = Math.max(slot + 1, 2 * length)
    this.untilMs = grown(this.untilMs, new Float64Array(size))
    this.openMs = grown(this.openMs, new Float64Array(size))
    this.beginsMs = grown(this.beginsMs, new Float64Array(size))
    this.beginStepMs = grown(this.beginStepMs, new Float64Array(size))
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

  /** A new rank has this slot. */
  join(slot: number): void {
    this.reserve(slot)
    this.untilMs[slot] = this.openMs[slot] = this.othersUntilMs[slot] = 0
    this.open[slot] = this.otherRequests[slot] = this.requests[slot] = 0
    this.waiting[slot] = this.long[slot] = 0
    this.beginsMs[slot] = this.beginStepMs[slot] = 0
    this.sentWork[slot] = this.sentMs[slot] = 0
    this.contextTokens[slot] = this.requestMs[slot] = this.contextMs[slot] = 0
    this.prefilledMs[slot] = this.sinceMs[slot] = 0
  }

  /**
   * How long a prompt sent now waits for those before it. One that is computed together with them waits for their tokens, but
   * `startMs` (what computing prompts takes however few tokens they have) is then its own.
   */
  waitMs(slot: number, nowMs: number, startMs: number): number {
    const others = Math.max((this.othersUntilMs[slot] as number) - nowMs, 0)
    if (this.open[slot] === 0) return others
    const left = Math.abs((this.untilMs[slot] as number) - nowMs)
    const behind = Math.max(left, LATE_SHARE * (this.openMs[slot] as number))
    const share = this.joinShare(slot, nowMs)
    const beside = Math.max((this.openMs[slot] as number) - startMs, 0)
    return others + (1 - share) * behind + share * beside
  }

  /** With those that have no first token yet. */
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
   * A prompt that takes `ms` once those before it are done. The first one begins when the step under way has ended, after
   * `stepMs` at most; until then others can still join it.
   */
  prefillSent(slot: number, { ms, isLong, stepMs }: SentPrompt, nowMs: number): void {
    const isIdle = this.open[slot] === 0
    const from = isIdle ? nowMs : Math.max(this.untilMs[slot] as number, nowMs)
    const joins = !isIdle && !isLong && this.joinShare(slot, nowMs) >= 0.5
    if (isIdle) {
      this.beginsMs[slot] = nowMs + stepMs
      this.beginStepMs[slot] = stepMs
    }
    if ((!isIdle && !joins) || isLong) this.waiting[slot] = (this.waiting[slot] as number) + 1
    if (isLong) this.long[slot] = (this.long[slot] as number) + 1
    this.sentWork[slot] = this.#workAt(slot, nowMs) + ms
    this.sentMs[slot] = nowMs
    this.open[slot] = (this.open[slot] as number) + 1
    this.openMs[slot] = (this.openMs[slot] as number) + ms
    this.untilMs[slot] = from + ms
  }

  /** Of the rank's time, what prompts have taken of late: those that decode there stand still meanwhile. */
  promptShare(slot: number, nowMs: number): number {
    return Math.min(this.#workAt(slot, nowMs) / RECENT_MS, PROMPT_SHARE_MAX)
  }

  /** Fades about as e⁻ˣ does; without its price for each of a thousand ranks. */
  #workAt(slot: number, nowMs: number): number {
    const age = Math.max(nowMs - (this.sentMs[slot] as number), 0) / RECENT_MS
    return (this.sentWork[slot] as number) / (1 + age * (1 + age / 2))
  }

  /** How likely the first of the open ones has not begun yet, so that a prompt sent now is computed with it. */
  joinShare(slot: number, nowMs: number): number {
    if (this.open[slot] === 0) return 0
    const left = (this.beginsMs[slot] as number) - nowMs
    return left <= 0 ? 0 : Math.min(left / (this.beginStepMs[slot] as number), 1)
  }

  prefillDone(slot: number, ms: number, isLong: boolean, nowMs: number): void {
    if (isLong) this.long[slot] = (this.long[slot] as number) - 1
    const open = (this.open[slot] as number) - 1
    const left = open === 0 ? 0 : Math.max((this.openMs[slot] as number) - ms, 0)
    this.open[slot] = open
    this.openMs[slot] = left
    this.untilMs[slot] = nowMs + left
    this.waiting[slot] = this.long[slot] as number
    this.beginsMs[slot] = 0
    this.prefilledMs[slot] = (this.prefilledMs[slot] as number) + ms
  }

  /** What the rank reports beyond what this router has sent. */
  others(slot: number, requests: number, prefillMs: number, nowMs: number): void {
    this.otherRequests[slot] = Math.max(requests, 0)
    this.othersUntilMs[slot] = prefillMs > 0 ? nowMs + prefillMs : 0
  }

  /** Brings the integrals up to now. */
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
    this.requestMs[slot] =
      (this.requestMs[slot] as number) + elapsed * (this.requests[slot] as number)
    this.contextMs[slot] =
      (this.contextMs[slot] as number) + elapsed * (this.contextTokens[slot] as number)
  }
}

/**
 * How many times longer output takes by prompts between its steps (1 / (1 − `promptShare`)), with one division for each of
 * a thousand ranks: `work` was sent there, the last of it so long ago.
 */
export function stretchOf(work: number, sinceMs: number): number {
  const age = sinceMs * PER_RECENT
  const faded = age > 0 ? 1 + age * (1 + 0.5 * age) : 1
  const share = work * PER_RECENT
  return share > PROMPT_SHARE_MAX * faded ? STRETCH_MAX : faded / (faded - share)
}

export interface SentPrompt {
  readonly ms: number
  /** Longer than a step. */
  readonly isLong: boolean
  /** Of those that decode there; 0: nobody does. */
  readonly stepMs: number
}

/** Of one rank, since it joined: two of them say what was there between them. */
export interface RankMoment {
  readonly requestMs: number
  readonly contextMs: number
  readonly prefilledMs: number
}

function grown<T extends { set(from: T): void }>(from: T, to: T): T {
  to.set(from)
  return to
}
