/**
 * Admission to a pool: decides which requests are sent now, queued or refused. Connects the queue with the clock and
 * the pool's load.
 *
 * A request is queued if every rank that it could go to is busy (full, or above a threshold of the request's class)
 * or if its class already has queued requests. It leaves the queue exactly once: when it is sent, when its deadline
 * passes, when it is displaced by a more important one, or when it is cancelled. Under overload only as many requests
 * are queued as the pool starts within `overloadWaitMs`; the others are refused at once with a retry time, lowest
 * priority first.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import type { RoutingHints } from '../../request/index.ts'
import type { ClassQueue, QueueEntry } from './class-queue.ts'
import { FlowMeter } from './flow-meter.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import { lateInQueue } from '../decide/late-error.ts'
import { pinOf } from '../decide/pin.ts'
import { PolicyQueue } from './policy-queue.ts'
import { PoolRoom } from './pool-room.ts'
import { hasBegun, hasConstraint } from './request-constraints.ts'
import type { SelectionQuery } from '../decide/selection.ts'

interface AdmissionWaiter {
  onGo(queuedMs: number): void
  onRefused(error: BatonError): void
}

/** Load also falls without an event (prefill decays), so queued requests are checked again. */
const RECHECK_MS = 250
/** A request that waited this long may use places that other frontends have taken more than their share of. */
const WAITED_MS = 250
const RETRY_MS_DEFAULT = 1000
const RETRY_MS_MAX = 30_000
/** A request without a goal is ordered as if it had to start within this time, or within half of its queue deadline. */
const PATIENCE_MS = 10_000
/** Requests that waited this many times the wait of an overload have waited long. */
const LONG_WAITS = 2
/** At least one request may always be queued. */
const LINE_MIN = 1
/** Under overload: share of the allowed wait that requests may spend in the engine's own queue. */
const ENGINE_SHARE = 0.5
/** Strict priority of requests that have begun (`hasBegun`): they go first and are never displaced. */
const FIRST = Number.MAX_SAFE_INTEGER

interface Waiting extends QueueEntry {
  readonly queue: ClassQueue
  readonly waiter: AdmissionWaiter
  deadline: Timer | null
  /** Fires when the request can no longer meet its goal. */
  startBy: Timer | null
  cancelTimers(): void
  /** Its first-token goal in milliseconds, as long as it may be refused because of it. */
  readonly ttftMs: number | null
}

const NOBODY: AdmissionWaiter = { onGo: () => undefined, onRefused: () => undefined }

export class Admission {
  readonly #router: KvRouter
  readonly #clock: Clock
  readonly #queue: PolicyQueue
  readonly #room: PoolRoom
  #draining = false
  #isClosed = false
  #recheck: Timer | null = null
  readonly #flow: FlowMeter
  /** Wait of the last request that was sent, and since when none has been sent. */
  #lastWaitMs = 0
  #stillSinceMs = 0
  /** The pool of the following leg: requests wait here rather than there. */
  readonly #next: KvRouter | null

  constructor(router: KvRouter, clock: Clock, next: KvRouter | null = null) {
    this.#router = router
    this.#clock = clock
    this.#flow = new FlowMeter(
      () => router.endedCount,
      () => this.#queue.requests,
    )
    this.#next = next
    this.#room = new PoolRoom(router, clock, next)
    next?.onCapacity(() => this.#drain())
    router.waitingOutside = () => this.#queue.requests
    this.#queue = new PolicyQueue(router.config.policyClasses, router.config.maxQueuedRequests)
    router.onCapacity(() => this.#drain())
  }

  get waiting(): { requests: number; promptTokens: number } {
    return { requests: this.#queue.requests, promptTokens: this.#queue.promptTokens }
  }

  /** Calls the waiter exactly once, now or later, unless the returned function is called first. */
  enter(query: SelectionQuery, waiter: AdmissionWaiter): () => void {
    const { policyClass } = query.request.routing
    const nowMs = this.#clock.nowMs()
    const queue = this.#queue.classOf(policyClass, () => this.#router.uncachedTokens(query))
    const mustWait = this.#room.mustWait(queue, query)
    const late = this.#lateRefusal(queue, query, mustWait)
    if (late !== null) {
      waiter.onRefused(late)
      return () => undefined
    }
    this.#flow.arrived(nowMs)
    if (!mustWait) {
      this.#flow.gone(nowMs)
      waiter.onGo(0)
      return () => undefined
    }
    if (this.#isClosed) {
      waiter.onRefused(closing())
      return () => undefined
    }
    const entry = this.#entryOf(queue, query, waiter)
    if (this.#queue.requests === 0) this.#stillSinceMs = nowMs
    this.#boundEngines(nowMs)
    this.#shorten(nowMs)
    const refusal = this.#add(entry)
    if (refusal !== null) {
      waiter.onRefused(refusal)
      return () => undefined
    }
    this.#startClock(entry)
    this.#shorten(nowMs)
    // The queued requests may wait for a worker that this one does not need.
    this.#drain()
    return () => this.#leave(entry)
  }

  /**
   * The refusal that a request with these hints would get from `enter`, before its prompt is tokenized: under
   * overload, tokenizing is most of the cost of a refusal. Null if `enter` has to decide.
   */
  refusalAtOnce(routing: RoutingHints): BatonError | null {
    const { filters, policyClasses } = this.#router.config
    if (this.#isClosed || this.#queue.requests === 0 || this.#router.rankCount === 0) return null
    if (policyClasses.length > 1 || filters.length > 0 || hasConstraint(routing)) return null
    const nowMs = this.#clock.nowMs()
    this.#boundEngines(nowMs)
    this.#shorten(nowMs)
    const line = this.#lineOf(nowMs)
    const { strictPriority = 0, tenantId: tenant = '', tenantWeight = 1 } = routing
    const rank = { strictPriority, tenant, tenantWeight }
    if (line === null || this.#queue.countAhead(rank) < line) return null
    this.#flow.arrived(nowMs)
    return this.#overloaded(line)
  }

  /** Refuses all queued requests, and from now on queues none. */
  close(): void {
    this.#isClosed = true
    for (const entry of this.#queue.entries() as Waiting[]) {
      if (this.#leave(entry)) entry.waiter.onRefused(closing())
    }
    this.#recheck?.cancel()
    this.#recheck = null
  }

  /**
   * The refusal if no worker is predicted to meet the request's goals after the wait. A started request is not
   * refused.
   */
  #lateRefusal(queue: ClassQueue, query: SelectionQuery, mustWait: boolean): BatonError | null {
    if (query.request.routing.goals === undefined || hasBegun(query)) return null
    return this.#router.goals.lateRefusal(query, mustWait ? this.#waitBefore(queue, query) : 0)
  }

  #waitBefore(queue: ClassQueue, query: SelectionQuery): number {
    const rate = this.#flow.rate(this.#clock.nowMs())
    if (rate === null) return 0
    const entry = this.#entryOf(queue, query, NOBODY)
    return queue.countSooner(entry) / rate
  }

  /** Null if the request is queued. If the queue is full, a less important request is displaced. */
  #add(entry: Waiting): BatonError | null {
    const line = this.#lineOf(this.#clock.nowMs())
    if (line !== null && this.#ahead(entry) >= line) return this.#overloaded(line)
    const scope = { workers: this.#router.workerCount, retryAfterMs: this.#retryAfterMs() }
    const refusal = this.#queue.add(entry.queue, entry, scope)
    if (refusal === null) return null
    const isClassFull = this.#queue.isClassFull(entry.queue, scope.workers)
    const last = this.#queue.last(isClassFull ? entry.queue : null) as Waiting | null
    if (last === null || !mayReplace(entry, last)) return refusal
    this.#drop(last, refusal)
    return this.#queue.add(entry.queue, entry, scope)
  }

  /** Under overload: how many requests may be queued. Null: the queue's own limits apply. */
  #lineOf(nowMs: number): number | null {
    const work = this.#workOf(nowMs)
    if (work === null) return null
    return Math.max(Math.ceil(work) - this.#waitingBehind(), LINE_MIN)
  }

  /** Requests sent from here that are still queued, inside the workers or for the next leg. */
  #waitingBehind(): number {
    const next = this.#next
    const there = next === null ? 0 : next.waitingInside + next.waitingOutside()
    return this.#router.waitingInside + there
  }

  /** Under overload: the number of requests that start within `overloadWaitMs`, including those queued inside workers. */
  #workOf(nowMs: number): number | null {
    const { overloadWaitMs } = this.#router.config.deadlines
    if (overloadWaitMs === 0 || !this.#flow.isOverloaded(nowMs)) return null
    return this.#startedWithin(overloadWaitMs, nowMs)
  }

  #startedWithin(waitMs: number, nowMs: number): number {
    return (this.#flow.rate(nowMs) ?? 0) * waitMs
  }

  /** The same where requests wait long although no overload was detected, unless other frontends have more places. */
  #workOfLongWait(nowMs: number): number | null {
    const { overloadWaitMs } = this.#router.config.deadlines
    if (overloadWaitMs === 0 || !this.#hasWaited(nowMs, LONG_WAITS * overloadWaitMs)) return null
    return this.#router.hasMostInside ? this.#startedWithin(overloadWaitMs, nowMs) : null
  }

  #hasWaited(nowMs: number, ms: number): boolean {
    if (this.#queue.requests === 0) return false
    return this.#lastWaitMs >= ms || nowMs - this.#stillSinceMs >= ms
  }

  /**
   * Limits the engines' own queues: several requests ahead on a slow engine would exceed the intended wait. Also where
   * requests wait long without an overload: other frontends may have detected it and lowered their limit. This one
   * would keep the places that they leave, so that its own excess stays too small to be detected and its queue grows.
   */
  #boundEngines(nowMs: number): void {
    const work = this.#workOf(nowMs) ?? this.#workOfLongWait(nowMs)
    const perRank = ((work ?? 0) * ENGINE_SHARE) / Math.max(this.#router.rankCount, 1)
    const max = work === null ? null : Math.max(Math.ceil(perRank), 1)
    const hasWaited = this.#hasWaited(nowMs, WAITED_MS)
    this.#next?.judge.setAwaited(hasWaited)
    this.#router.judge.boundEngineQueue(max, hasWaited)
  }

  /** Refuses the queued requests beyond the limit, lowest priority first. */
  #shorten(nowMs: number): void {
    const line = this.#lineOf(nowMs)
    if (line === null) return
    while (this.#queue.requests > line) {
      const last = this.#queue.last() as Waiting | null
      if (last === null || last.strictPriority === FIRST) return
      this.#drop(last, this.#overloaded(line))
    }
  }

  #ahead(entry: Waiting): number {
    return entry.strictPriority === FIRST ? 0 : this.#queue.countAhead(entry)
  }

  #drop(entry: Waiting, error: BatonError): void {
    entry.cancelTimers()
    if (this.#queue.remove(entry.queue, entry)) entry.waiter.onRefused(error)
  }

  #overloaded(limit: number): BatonError {
    const nowMs = this.#clock.nowMs()
    const current = this.#queue.requests
    const retryAfterMs = Math.min(Math.max(1000 * this.#flow.excess(nowMs), 1000), RETRY_MS_MAX)
    return new BatonError(
      'capacity.pool_exhausted',
      `overloaded: requests arrive faster than the workers start them, ${current} are already queued`,
      { data: { stage: 'queue', limit, current, retryAfterMs: Math.ceil(retryAfterMs) } },
    )
  }

  #entryOf(queue: ClassQueue, query: SelectionQuery, waiter: AdmissionWaiter): Waiting {
    const { request, phase } = query
    const { routing } = request
    const promptTokens = request.tokenIds.length
    const uncachedTokens = this.#router.uncachedTokens(query)
    const arrivedMs = this.#clock.nowMs()
    const entry: Waiting = {
      queue,
      waiter,
      deadline: null,
      startBy: null,
      isLate: false,
      cancelTimers: () => {
        entry.deadline?.cancel()
        entry.startBy?.cancel()
      },
      ttftMs: hasBegun(query) ? null : (routing.goals?.ttftMs ?? null),
      requestId: request.requestId,
      promptTokens,
      cachedTokens: promptTokens - uncachedTokens,
      cost: Math.max(uncachedTokens, 1),
      strictPriority: hasBegun(query) ? FIRST : (routing.strictPriority ?? 0),
      priority: routing.priority ?? 0,
      tenant: routing.tenantId ?? '',
      tenantWeight: routing.tenantWeight ?? 1,
      pinned: pinOf(routing, phase)?.workerId ?? '',
      arrivedMs,
      startByMs:
        this.#router.goals.latestStartMs(query, uncachedTokens) ?? arrivedMs + this.#patienceMs(),
      canGo: this.#room.canGo(queue, query),
    }
    return entry
  }

  #patienceMs(): number {
    const { queueMs } = this.#router.config.deadlines
    return queueMs > 0 ? Math.min(PATIENCE_MS, queueMs / 2) : PATIENCE_MS
  }

  #startClock(entry: Waiting): void {
    const { queueMs } = this.#router.config.deadlines
    if (entry.ttftMs !== null) {
      const leftMs = Math.max(entry.startByMs - entry.arrivedMs, 0)
      entry.startBy = this.#clock.after(leftMs, () => this.#isLate(entry))
    }
    if (queueMs > 0) {
      entry.deadline = this.#clock.after(queueMs, () => {
        if (!this.#leave(entry)) return
        entry.waiter.onRefused(
          new BatonError(
            'request.deadline_exceeded',
            `stage 'queue': waited more than ${queueMs} ms for a worker`,
            {
              data: { stage: 'queue', limitMs: queueMs, retryAfterMs: this.#retryAfterMs() },
            },
          ),
        )
      })
    }
    this.#armRecheck()
  }

  /** The request would start too late for its goal: it is refused, or goes behind those that can still meet theirs. */
  #isLate(entry: Waiting): void {
    if (!this.#queue.remove(entry.queue, entry)) return
    if (this.#router.goals.refuses) {
      entry.cancelTimers()
      entry.waiter.onRefused(this.#lateError(entry))
    } else {
      entry.isLate = true
      entry.queue.add(entry)
    }
    this.#drain()
  }

  #lateError(entry: Waiting): BatonError {
    const waitedMs = this.#clock.nowMs() - entry.arrivedMs
    return lateInQueue(entry.ttftMs ?? 0, waitedMs, this.#retryAfterMs())
  }

  #leave(entry: Waiting): boolean {
    entry.cancelTimers()
    if (!this.#queue.remove(entry.queue, entry)) return false
    // Its removal may have unblocked the requests behind it.
    this.#drain()
    return true
  }

  #drain(): void {
    if (this.#draining || this.#isClosed) return
    this.#draining = true
    try {
      if (this.#queue.requests > 0) this.#boundEngines(this.#clock.nowMs())
      for (let entry = this.#pop(); entry !== null; entry = this.#pop()) {
        entry.cancelTimers()
        const nowMs = this.#clock.nowMs()
        this.#flow.gone(nowMs)
        this.#stillSinceMs = nowMs
        this.#lastWaitMs = nowMs - entry.arrivedMs
        entry.waiter.onGo(this.#lastWaitMs)
      }
    } finally {
      this.#draining = false
    }
    if (this.#queue.requests > 0) this.#armRecheck()
  }

  #pop(): Waiting | null {
    return this.#queue.requests === 0 ? null : (this.#queue.pop() as Waiting | null)
  }

  #armRecheck(): void {
    if (this.#recheck !== null) return
    this.#recheck = this.#clock.after(RECHECK_MS, () => {
      this.#recheck = null
      this.#drain()
    })
  }

  /** Time to work off the present queue at the present rate. */
  #retryAfterMs(): number {
    const rate = this.#flow.rate(this.#clock.nowMs())
    if (rate === null) return RETRY_MS_DEFAULT
    const wait = Math.ceil((this.#queue.requests + 1) / rate)
    return Math.min(Math.max(wait, 100), RETRY_MS_MAX)
  }
}

function closing(): BatonError {
  return new BatonError('backend.worker_unavailable', 'the router is closing', {
    data: { stage: 'queue' },
  })
}

/** Whether `entry` may displace `held`: it has a higher priority, or its tenant has less queued for its weight. */
function mayReplace(entry: Waiting, held: Waiting): boolean {
  if (held.strictPriority !== entry.strictPriority) {
    return held.strictPriority < entry.strictPriority
  }
  return held.strictPriority !== FIRST && held.queue.hasMoreThan(held, entry)
}
