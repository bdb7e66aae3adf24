/**
 * Admission to a pool: decides which requests are sent now, queued or refused. Connects the queue with the clock and
 * the pool's load.
 *
 * A request is queued if every rank that it could go to is busy (full, or above a threshold of the request's class)
 * or if its class already has queued requests. It leaves the queue exactly once: when it is sent, when its deadline
 * passes, when it is displaced by a more important one, or when it is cancelled. Under overload, the requests beyond the
 * limit (`overload-limit.ts`) are refused at once with a retry time, lowest priority first.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import type { RoutingHints } from '../../request/index.ts'
import type { ClassQueue, QueueEntry, QueueRank } from './class-queue.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import { lateInQueue } from '../decide/late-error.ts'
import type { Flow, ToldFlow } from './flow-meter.ts'
import { LINE_MIN, OverloadLimit } from './overload-limit.ts'
import { PolicyQueue } from './policy-queue.ts'
import { PoolRoom } from './pool-room.ts'
import { ALL_RANKS } from './rank-set.ts'
import { hasBegun, hasConstraint } from './request-constraints.ts'
import type { SelectionQuery } from '../decide/selection.ts'

interface AdmissionOptions {
  readonly router: KvRouter
  readonly clock: Clock
  /** The pool of the following leg. */
  readonly next?: KvRouter | null
  /** Tells the other frontends what arrived here and what was done. */
  readonly tellFlow?: ((flow: Flow) => void) | undefined
}

interface AdmissionWaiter {
  onGo(queuedMs: number): void
  onRefused(error: BatonError): void
}

/** Load also falls without an event (prefill decays), so queued requests are checked again. */
const RECHECK_MS = 250
/** A request without a goal is ordered as if it had to start within this time, or within half of its queue deadline. */
const PATIENCE_MS = 10_000
/** Strict priority of requests that have begun (`hasBegun`): they go first and are never displaced. */
const FIRST = Number.MAX_SAFE_INTEGER

interface Waiting extends QueueEntry {
  readonly query: SelectionQuery
  readonly queue: ClassQueue
  readonly waiter: AdmissionWaiter
  deadline: Timer | null
  /** Fires when the request can no longer meet its goal. */
  startBy: Timer | null
  cancelTimers(): void
  /** Its first-token goal in milliseconds, as long as it may be refused because of it. */
  readonly ttftMs: number | null
}

export class Admission {
  readonly #router: KvRouter
  readonly #clock: Clock
  readonly #next: KvRouter | null
  readonly #queue: PolicyQueue
  readonly #room: PoolRoom
  #draining = false
  #isClosed = false
  #recheck: Timer | null = null
  /** Of the fleets by which the queued requests are sorted: this one and that of the following leg together. */
  #fleetVersion = 0
  readonly #overload: OverloadLimit

  constructor({ router, clock, next = null, tellFlow }: AdmissionOptions) {
    this.#router = router
    this.#clock = clock
    this.#next = next
    const { overloadWaitMs } = router.config.deadlines
    this.#overload = new OverloadLimit({
      capacity: router.capacity,
      next: next?.capacity ?? null,
      overloadWaitMs,
      queued: () => this.#queue.requests,
      tellFlow,
    })
    this.#room = new PoolRoom(router, clock, next)
    next?.capacity.onGrowth(() => this.#drain())
    router.capacity.waitingOutside = () => this.#queue.requests
    router.capacity.waitingByGroup = () =>
      this.#queue.sets.map((ranks) => ({ ranks, requests: this.#queue.requestsOf(ranks) }))
    this.#queue = new PolicyQueue(router.config.policyClasses, router.config.maxQueuedRequests)
    router.capacity.onGrowth(() => this.#drain())
  }

  /** What arrived at another frontend, and what was done there. */
  learnFlow(flow: ToldFlow): void {
    this.#overload.heard(flow, this.#clock.nowMs())
  }

  get waiting(): { requests: number; promptTokens: number } {
    return { requests: this.#queue.requests, promptTokens: this.#queue.promptTokens }
  }

  /** Calls the waiter exactly once, now or later, unless the returned function is called first. */
  enter(query: SelectionQuery, waiter: AdmissionWaiter): () => void {
    const { policyClass } = query.request.routing
    this.#expire()
    const nowMs = this.#clock.nowMs()
    const queue = this.#queue.classOf(policyClass, () => this.#router.uncachedTokens(query))
    const mustWait = this.#room.mustWait(queue, query)
    const entry = mustWait ? this.#entryOf(queue, query, waiter) : null
    const late = this.#lateRefusal(query, entry)
    if (late !== null) {
      waiter.onRefused(late)
      return () => undefined
    }
    this.#overload.arrived(rankOf(query.request.routing), nowMs)
    if (entry === null) {
      this.#overload.sentAtOnce(nowMs)
      waiter.onGo(0)
      return () => undefined
    }
    if (this.#isClosed) {
      waiter.onRefused(closing())
      return () => undefined
    }
    if (this.#queue.requests === 0) this.#overload.queueBegan(nowMs)
    this.#overload.boundEngines(nowMs)
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
    if (this.#isClosed || this.#queue.requests === 0 || this.#router.capacity.rankCount === 0)
      return null
    if (policyClasses.length > 1 || filters.length > 0 || hasConstraint(routing)) return null
    const nowMs = this.#clock.nowMs()
    this.#overload.boundEngines(nowMs)
    this.#shorten(nowMs)
    const rank = rankOf(routing)
    const line = this.#overload.line(rank, ALL_RANKS, nowMs)
    if (line === null) return null
    const queue = this.#queue.classOf(undefined, () => 0)
    if (this.#queue.countAhead(queue, { ...rank, ranks: ALL_RANKS }) < line) return null
    this.#overload.arrived(rank, nowMs)
    return this.#overload.refusal(line, this.#queue.requestsOf(ALL_RANKS), nowMs)
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
  #lateRefusal(query: SelectionQuery, entry: Waiting | null): BatonError | null {
    if (query.request.routing.goals === undefined || hasBegun(query)) return null
    return this.#router.goals.lateRefusal(query, entry === null ? 0 : this.#waitBefore(entry))
  }

  #waitBefore(entry: Waiting): number {
    const rate = this.#overload.rate(this.#clock.nowMs())
    return rate === null ? 0 : entry.queue.countSooner(entry) / (rate * entry.ranks.share)
  }

  /** Null if the request is queued. If the queue is full, a less important request is displaced. */
  #add(entry: Waiting): BatonError | null {
    const nowMs = this.#clock.nowMs()
    const { ranks } = entry
    const line = this.#overload.line(entry, ranks, nowMs)
    if (line !== null && this.#ahead(entry) >= line) {
      return this.#overload.refusal(line, this.#queue.requestsOf(ranks), nowMs)
    }
    const retryAfterMs = this.#overload.retryAfterMs(nowMs)
    const scope = { workers: this.#router.workerCount, retryAfterMs }
    const refusal = this.#queue.add(entry.queue, entry, scope)
    if (refusal === null) return null
    const isClassFull = this.#queue.isClassFull(entry.queue, scope.workers)
    const last = this.#queue.last(isClassFull ? entry.queue : null) as Waiting | null
    if (last === null || !mayReplace(entry, last)) return refusal
    this.#drop(last, refusal)
    return this.#queue.add(entry.queue, entry, scope)
  }

  /** Refuses the queued requests beyond the limit of their ranks, lowest priority first. Call after `boundEngines`. */
  #shorten(nowMs: number): void {
    if (!this.#overload.isLimiting) return
    for (const ranks of this.#queue.sets) {
      for (;;) {
        const queued = this.#queue.requestsOf(ranks)
        // No line is shorter; with a thousand sets most have no more.
        if (queued <= LINE_MIN) break
        const last = this.#queue.last(null, ranks) as Waiting | null
        if (last === null || last.strictPriority === FIRST) break
        const line = this.#overload.line(last, ranks, nowMs)
        if (line === null || queued <= line) break
        this.#drop(last, this.#overload.refusal(line, queued, nowMs))
      }
    }
  }

  #ahead(entry: Waiting): number {
    return entry.strictPriority === FIRST ? 0 : this.#queue.countAhead(entry.queue, entry)
  }

  #drop(entry: Waiting, error: BatonError): void {
    entry.cancelTimers()
    if (this.#queue.remove(entry.queue, entry)) entry.waiter.onRefused(error)
  }

  #entryOf(queue: ClassQueue, query: SelectionQuery, waiter: AdmissionWaiter): Waiting {
    const { request } = query
    const { routing } = request
    const promptTokens = request.tokenIds.length
    const uncachedTokens = this.#router.uncachedTokens(query)
    const arrivedMs = this.#clock.nowMs()
    const entry: Waiting = {
      query,
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
      ranks: this.#room.ranksOf(query),
      arrivedMs,
      startByMs:
        this.#router.goals.latestStartMs(query, uncachedTokens) ?? arrivedMs + this.#patienceMs(),
      canGo: () => this.#room.canGo(queue, query, entry.ranks),
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
    this.#regroup()
    try {
      if (this.#queue.requests > 0) this.#overload.boundEngines(this.#clock.nowMs())
      for (let entry = this.#pop(); entry !== null; entry = this.#pop()) {
        entry.cancelTimers()
        const nowMs = this.#clock.nowMs()
        const waitedMs = nowMs - entry.arrivedMs
        this.#overload.sent(nowMs, waitedMs)
        entry.waiter.onGo(waitedMs)
      }
    } finally {
      this.#draining = false
    }
    if (this.#queue.requests > 0) this.#armRecheck()
  }

  #regroup(): void {
    const fleetVersion = this.#router.fleetVersion + (this.#next?.fleetVersion ?? 0)
    if (this.#fleetVersion === fleetVersion) return
    this.#fleetVersion = fleetVersion
    this.#queue.regroup((entry) => this.#room.ranksOf((entry as Waiting).query))
  }

  #pop(): Waiting | null {
    if (this.#queue.requests === 0) return null
    return this.#queue.pop(this.#overload.isLimiting) as Waiting | null
  }

  #armRecheck(): void {
    if (this.#recheck !== null) return
    this.#recheck = this.#clock.after(RECHECK_MS, () => {
      this.#recheck = null
      this.#expire()
      this.#drain()
    })
  }

  #expire(): void {
    this.#router.expire()
    this.#next?.expire()
  }

  #retryAfterMs(): number {
    return this.#overload.retryAfterMs(this.#clock.nowMs())
  }
}

function rankOf(routing: RoutingHints): QueueRank {
  const { strictPriority = 0, tenantId: tenant = '', tenantWeight = 1 } = routing
  return { strictPriority, tenant, tenantWeight }
}

function closing(): BatonError {
  return new BatonError('backend.worker_unavailable', 'the router is closing', {
    data: { stage: 'queue', isClosing: true },
  })
}

/** Whether `entry` may displace `held`: it has a higher priority, or its class or tenant has less queued for its share. */
function mayReplace(entry: Waiting, held: Waiting): boolean {
  if (held.strictPriority !== entry.strictPriority) {
    return held.strictPriority < entry.strictPriority
  }
  if (held.strictPriority === FIRST) return false
  const { queue } = entry
  return held.queue === queue
    ? queue.hasMoreThan(held, entry)
    : held.queue.roundsBefore(held) > queue.roundsBefore(null)
}
