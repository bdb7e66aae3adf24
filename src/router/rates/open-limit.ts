/**
 * How many requests one rank may have without a first token (open requests), where its batch size is not known.
 *
 * Nothing is limited until more than `queue` open requests, and more than a quarter of all, are late, and most answers were
 * or none comes: they take clearly longer than requests that were alone there (`unloaded-time.ts`), so they wait inside the
 * engine. Then as many may be open as the rank answers in the time after which a request is late (Little's law). An engine
 * that is merely slow, or that computes many prompts at once, answers as many as it has open in less than that time; so its
 * limit lies above what it needs, and grows with every answer that is not late. The limit is forgotten when it was not needed
 * for a while.
 *
 * How long a request takes may depend on what the router cannot see (the length of an answer that arrives as a whole, hidden
 * reasoning). Two observations correct it. An engine takes waiting requests in their order, so those that are overtaken are
 * being computed, and at least as many may be open. And a limit with which all answers are late shrinks: in a queue the waits
 * fall with it, and if they do not, the time is learned anew (`UnloadedTime.learnFromLevels`).
 *
 * Other routers fill the same queue. Their answers count as late or in time like own ones: a router that has few requests
 * there gets no answer of its own while those before them wait. And a request that was sent while theirs were open was not
 * alone.
 *
 * Counted by answers and not by running requests, so that it also holds for engines without a batch limit whose prompts
 * queue, for prefill workers, and for answers whose first token is not visible (they are open until their end).
 */
import { UnloadedTime } from './unloaded-time.ts'

/** Requests decode more slowly beside others; of an answer as a whole that is most of its time. */
const SLOWER_SHOWN = 2
const SLOWER_WHOLE = 4
/** Stragglers are late on any engine; a queue delays many. */
const LATE_SHARE = 0.25
/** One request is computed or waits for a place, and the next one is ready. */
const LEAST = 2
/** Answers are counted over at least this time. */
const SPAN_MS = 1000
/** Two answers in a row that were late, or most of the last ones; or no answer for several times the time of a late one. */
const LATE_ANSWERS = 1.5
const LATE_ANSWERS_FADE = 0.75
const STUCK = 3
/** Shorter pauses are frequent (a collector, a compiler, the network). */
const STUCK_MIN_MS = 2000
/** So many may be open per request that was overtaken: with fewer, fewer are overtaken. The number fades with each answer. */
const ROOM = 2
const OVERTAKEN_FADE = 0.97
/** If all answers are late the limit shrinks by each: either fewer wait then, or it is so low that none can wait. */
const ALL_LATE = 3.5
const SHRINK = 0.8
/** The limit grows by this share of the difference per answer in time: the count of answers is noisy. */
const GAIN = 0.1
/** First answers that take longer show how long an engine takes to start, not to answer. */
const COLD_MS = 10_000
/** A limit was needed if at least this share of it, and two requests, were open. */
const NEEDED_SHARE = 0.8
const NEEDED_MIN = 2
const FORGET_MS = 30_000
const COMPACT_ABOVE = 32

/** What is at the rank when a request is sent there. */
export interface Beside {
  /** Other requests, also those that have a first token, and those of other routers. */
  readonly others: number
  /** Those of other routers. */
  readonly peers: number
  /** Some of those have no first token. */
  readonly arePeersOpen: boolean
}

export interface OpenRequest {
  readonly tokens: number
  /** Its first token is not visible: the answer arrives as a whole. */
  readonly isWhole: boolean
  readonly sentMs: number
  /** Other open requests when it was sent. */
  readonly before: number
  /** It was the only one there. */
  readonly isSure: boolean
  /** Requests of other routers there had no first token. */
  readonly arePeersOpen: boolean
  /** Requests of other routers there. */
  readonly peers: number
  /** The limit when it was sent. */
  readonly max: number
  isOpen: boolean
  isLate: boolean
}

/** In the order of sending; those before `next` have ended or are counted as late. */
interface Sent {
  requests: OpenRequest[]
  next: number
}

export class OpenLimit {
  /** Infinity: nothing was learned, or the limit was forgotten. */
  max = Infinity
  readonly #queue: number
  readonly #shown = new UnloadedTime(SLOWER_SHOWN)
  readonly #whole = new UnloadedTime(SLOWER_WHOLE)
  /** Those that are open, in the order of sending. */
  readonly #inOrder = new Set<OpenRequest>()
  /** Apart, because one that is not late yet ends the search, and answers as a whole are late much later. */
  readonly #sentShown: Sent = { requests: [], next: 0 }
  readonly #sentWhole: Sent = { requests: [], next: 0 }
  #late = 0
  /** Late answers among the last ones, also those to other routers, faded. */
  #lateAnswers = 0
  /** Open requests that one answer has overtaken, at most: they are known to be computed at once. */
  #overtaken = 0
  /**
   * By the newest answers and Little's law: as many requests may be open, and would be open if none waited; as of
   * `#countedMs`.
   */
  #allowed = 0
  #computed = 0
  #countedMs = 0
  #neededMs = 0

  /** `queue`: requests that may wait inside a worker in any case. */
  constructor(queue: number) {
    this.#queue = queue
  }

  get open(): number {
    return this.#inOrder.size
  }

  /** Open requests that wait inside the engine; 0 while nothing is limited. */
  get waiting(): number {
    return this.max === Infinity ? 0 : Math.max(this.open - this.#computed, 0)
  }

  sent(tokens: number, isWhole: boolean, beside: Beside, nowMs: number): OpenRequest {
    const { max, open: before } = this
    const { others, peers, arePeersOpen } = beside
    const isSure = others === 0
    const sentMs = nowMs
    const known = { tokens, isWhole, sentMs, before, isSure, peers, arePeersOpen, max }
    const request = { ...known, isOpen: true, isLate: false }
    this.#timeOf(request).met(tokens, nowMs)
    ;(isWhole ? this.#sentWhole : this.#sentShown).requests.push(request)
    this.#inOrder.add(request)
    this.#judge(nowMs)
    return request
  }

  /** It has its first token, or ended with one. Idempotent; returns whether it was open. */
  answered(request: OpenRequest, nowMs: number): boolean {
    if (!request.isOpen) return false
    const { tokens, sentMs } = request
    const time = this.#timeOf(request)
    const elapsedMs = nowMs - sentMs
    if (!time.isKnown && this.#isCold(request, elapsedMs)) {
      // Those that were sent meanwhile wait. The ones after them show how long a request takes.
      this.max = LEAST
      this.#neededMs = nowMs
      this.#close(request)
      return true
    }
    this.#learn(time, request, elapsedMs)
    time.met(tokens, nowMs)
    const dueMs = time.dueMs(tokens)
    const spanMs = Math.max(SPAN_MS, dueMs)
    const kept = Math.exp((this.#countedMs - nowMs) / spanMs)
    this.#allowed = this.#allowed * kept + dueMs / spanMs
    this.#computed = this.#computed * kept + time.aloneMs(tokens) / spanMs
    this.#countedMs = nowMs
    this.#overtaken = Math.max(OVERTAKEN_FADE * this.#overtaken, this.#overtakenBy(request))
    this.#countAnswer(elapsedMs > dueMs)
    this.#judge(nowMs)
    if (elapsedMs <= dueMs) this.#grow()
    else if (this.#lateAnswers > ALL_LATE) this.max *= SHRINK
    this.max = Math.max(this.max, this.#least)
    this.#forget(nowMs)
    this.#close(request)
    return true
  }

  /** A request of another router, whose first token is visible, has it after `elapsedMs`. */
  peerAnswered(tokens: number, elapsedMs: number, nowMs: number): void {
    if (!this.#shown.isKnown) return
    this.#countAnswer(elapsedMs > this.#shown.dueMs(tokens))
    this.#judge(nowMs)
  }

  /** It ended in another way. Idempotent. */
  ended(request: OpenRequest, nowMs: number): void {
    if (!request.isOpen) return
    this.#judge(nowMs)
    this.#close(request)
  }

  #timeOf({ isWhole }: OpenRequest): UnloadedTime {
    return isWhole ? this.#whole : this.#shown
  }

  #countAnswer(isLate: boolean): void {
    this.#lateAnswers = LATE_ANSWERS_FADE * this.#lateAnswers + (isLate ? 1 : 0)
  }

  #learn(time: UnloadedTime, request: OpenRequest, elapsedMs: number): void {
    const { tokens, before, isSure, peers, arePeersOpen, max } = request
    // With a limit, the places may be taken by requests that have their first token.
    const isAlone = before === 0 && (isSure || (max === Infinity && !arePeersOpen))
    if (isAlone || time.isSlowFor(tokens, elapsedMs)) time.learn(tokens, elapsedMs, isSure)
    else if (before < LEAST && max < LEAST + 1) this.#learned(time.learnBehind(tokens, elapsedMs))
    else if (peers === 0 && before < max && max < Infinity)
      this.#learned(time.learnFromLevels(tokens, elapsedMs, max, this.max))
  }

  /** A request may take so many times longer. */
  #learned(longer: number): void {
    if (longer <= 1) return
    this.#allowed *= longer
    this.max = Math.max(this.max, this.#allowed)
  }

  /** Whether the first answers of streams come so late, to so many, that the engine has just started. */
  #isCold({ isWhole, before }: OpenRequest, elapsedMs: number): boolean {
    return !isWhole && elapsedMs >= COLD_MS && Math.max(this.open, before) > LEAST
  }

  /** Number of open requests that were sent before an open one. */
  #overtakenBy(request: OpenRequest): number {
    let count = 0
    for (const other of this.#inOrder) {
      if (other === request) break
      count++
    }
    return count
  }

  /** As many may be open in any case. */
  get #least(): number {
    return Math.max(LEAST, ROOM * this.#overtaken)
  }

  #grow(): void {
    const room = this.#allowed - this.max
    // While nothing is late, it doubles in the time of an answer.
    if (room > 0)
      this.max += this.#late === 0 ? Math.min(room, Math.max(1, GAIN * room)) : GAIN * room
  }

  /** With a limit, fewer late requests are enough: they keep it low. */
  #judge(nowMs: number): void {
    this.#countLate(this.#sentShown, nowMs)
    this.#countLate(this.#sentWhole, nowMs)
    const few = this.max === Infinity ? this.#queue : 1
    const isQueue = this.#late > Math.max(few, LATE_SHARE * this.open)
    // Stragglers of a load that has fallen are late, too, but few compared with the answers.
    const most = Math.max(this.#allowed, this.#least)
    if (!isQueue || this.open <= most) return
    const isSure = this.max < Infinity || this.#lateAnswers >= LATE_ANSWERS || this.#isStuck(nowMs)
    if (!isSure) return
    this.max = Math.min(this.max, most)
    this.#neededMs = nowMs
  }

  /** Whether the oldest open request waits much too long. */
  #isStuck(nowMs: number): boolean {
    const [oldest] = this.#inOrder
    if (oldest === undefined) return false
    const dueMs = this.#timeOf(oldest).dueBehindMs(oldest.tokens, nowMs)
    return nowMs - oldest.sentMs > Math.max(STUCK * dueMs, STUCK_MIN_MS)
  }

  #countLate(sent: Sent, nowMs: number): void {
    for (; sent.next < sent.requests.length; sent.next++) {
      const request = sent.requests[sent.next] as OpenRequest
      if (!request.isOpen) continue
      const time = this.#timeOf(request)
      if (nowMs - request.sentMs <= time.dueBehindMs(request.tokens, nowMs)) break
      request.isLate = true
      this.#late++
    }
    const { length } = sent.requests
    if (
      length > 2 * (length - sent.next) + COMPACT_ABOVE ||
      length > 2 * this.open + COMPACT_ABOVE
    ) {
      sent.requests = sent.requests.slice(sent.next).filter(({ isOpen }) => isOpen)
      sent.next = 0
    }
  }

  #close(request: OpenRequest): void {
    request.isOpen = false
    this.#inOrder.delete(request)
    if (request.isLate) this.#late--
  }

  #forget(nowMs: number): void {
    if (this.open >= Math.max(NEEDED_SHARE * this.max, NEEDED_MIN)) this.#neededMs = nowMs
    else if (nowMs - this.#neededMs > FORGET_MS) this.max = Infinity
  }
}
