/**
 * Who goes now and who waits: the queue of a pool together with the clock and the pool's load.
 *
 * A request waits when its class has a threshold and either the class waits already or every rank that it could go to is
 * busy. It stops waiting when it goes, when its time is over, or when it is cancelled; each exactly once.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, Timer } from '../base/index.ts'
import type { ClassQueue, QueueEntry } from './class-queue.ts'
import type { KvRouter } from './kv-router.ts'
import { pinOf } from './pin.ts'
import { isQueueing } from './policy-class.ts'
import { PolicyQueue } from './policy-queue.ts'
import type { SelectionQuery } from './selection.ts'

interface AdmissionWaiter {
  onGo(queuedMs: number): void
  onRefused(error: BatonError): void
}

/** Load also falls without being told (prefills wear off): waiting requests are looked at again. */
const RECHECK_MS = 1000
const RETRY_MS_DEFAULT = 1000
const RETRY_MS_MAX = 30_000

interface Waiting extends QueueEntry {
  readonly queue: ClassQueue
  readonly waiter: AdmissionWaiter
  deadline: Timer | null
}

export class Admission {
  readonly #router: KvRouter
  readonly #clock: Clock
  readonly #queue: PolicyQueue
  readonly #plainAnswers = new Map<ClassQueue, { version: number; nowMs: number; canGo: boolean }>()
  #draining = false
  #isClosed = false
  #recheck: Timer | null = null
  #lastGoMs: number | null = null
  #msPerGo: number | null = null

  constructor(router: KvRouter, clock: Clock) {
    this.#router = router
    this.#clock = clock
    this.#queue = new PolicyQueue(router.config.policyClasses, router.config.maxQueuedRequests)
    router.onRoom(() => this.#drain())
  }

  get waiting(): { requests: number; promptTokens: number } {
    return { requests: this.#queue.requests, promptTokens: this.#queue.promptTokens }
  }

  /** Calls the waiter once, now or later, unless the returned function is called first. */
  enter(query: SelectionQuery, waiter: AdmissionWaiter): () => void {
    const { policyClass } = query.request.routing
    const queue = this.#queue.classOf(policyClass, () => this.#uncachedTokens(query))
    if (!this.#mustWait(queue, query)) {
      waiter.onGo(0)
      return () => undefined
    }
    if (this.#isClosed) {
      waiter.onRefused(closing())
      return () => undefined
    }
    const entry = this.#entryOf(queue, query, waiter)
    const refusal = this.#queue.add(queue, entry, {
      workers: this.#router.workerCount,
      retryAfterMs: this.#retryAfterMs(),
    })
    if (refusal !== null) {
      waiter.onRefused(refusal)
      return () => undefined
    }
    this.#startClock(entry)
    return () => this.#leave(entry)
  }

  /** Refuses all that wait; from now on nobody waits. */
  close(): void {
    this.#isClosed = true
    for (const entry of this.#queue.entries() as Waiting[]) {
      if (this.#leave(entry)) entry.waiter.onRefused(closing())
    }
    this.#recheck?.cancel()
    this.#recheck = null
  }

  #mustWait(queue: ClassQueue, query: SelectionQuery): boolean {
    if (!isQueueing(queue.policyClass)) return false
    const eligible = this.#router.eligible(query)
    if (eligible.length === 0) return false
    return queue.requests > 0 || eligible.every((slot) => this.#isBusy(queue, slot))
  }

  #isBusy({ policyClass }: ClassQueue, slot: number): boolean {
    const { prefillTokens, maxBatchedTokens } = this.#router.loadOf(slot)
    const { prefillBusyThreshold: limit, prefillBusyShare: share } = policyClass
    if (limit !== null && prefillTokens > limit) return true
    return share !== null && prefillTokens > share * maxBatchedTokens
  }

  #entryOf(queue: ClassQueue, query: SelectionQuery, waiter: AdmissionWaiter): Waiting {
    const { request, phase } = query
    const { routing } = request
    const promptTokens = request.tokenIds.length
    const uncachedTokens = this.#uncachedTokens(query)
    return {
      queue,
      waiter,
      deadline: null,
      requestId: request.requestId,
      promptTokens,
      cachedTokens: promptTokens - uncachedTokens,
      cost: Math.max(uncachedTokens, 1),
      strictPriority: routing.strictPriority ?? 0,
      priority: routing.priority ?? 0,
      tenant: routing.tenantId ?? '',
      pinned: pinOf(routing, phase)?.workerId ?? '',
      arrivedMs: this.#clock.nowMs(),
      canGo:
        this.#router.config.filters.length === 0 && isPlain(query)
          ? () => this.#plainCanGo(queue, query)
          : () => this.#hasRoom(queue, query),
    }
  }

  #uncachedTokens(query: SelectionQuery): number {
    const promptTokens = query.request.tokenIds.length
    return Math.max(promptTokens - this.#router.bestCachedTokens(query), 0)
  }

  #hasRoom(queue: ClassQueue, query: SelectionQuery): boolean {
    const eligible = this.#router.eligible(query)
    return eligible.length === 0 || eligible.some((slot) => !this.#isBusy(queue, slot))
  }

  /** Requests without wishes have the same answer until something changes: with a long queue that is most of them. */
  #plainCanGo(queue: ClassQueue, query: SelectionQuery): boolean {
    const { version } = this.#router
    const nowMs = this.#clock.nowMs()
    const known = this.#plainAnswers.get(queue)
    if (known !== undefined && known.version === version && known.nowMs === nowMs) {
      return known.canGo
    }
    const canGo = this.#hasRoom(queue, query)
    this.#plainAnswers.set(queue, { version, nowMs, canGo })
    return canGo
  }

  #startClock(entry: Waiting): void {
    const { queueMs } = this.#router.config.deadlines
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

  #leave(entry: Waiting): boolean {
    entry.deadline?.cancel()
    if (!this.#queue.remove(entry.queue, entry)) return false
    // Its place may have been what held back the ones behind it.
    this.#drain()
    return true
  }

  #drain(): void {
    if (this.#draining || this.#isClosed) return
    this.#draining = true
    try {
      for (let entry = this.#pop(); entry !== null; entry = this.#pop()) {
        entry.deadline?.cancel()
        const nowMs = this.#clock.nowMs()
        this.#measure(nowMs)
        entry.waiter.onGo(nowMs - entry.arrivedMs)
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

  #measure(nowMs: number): void {
    if (this.#lastGoMs !== null) {
      const gap = nowMs - this.#lastGoMs
      this.#msPerGo = this.#msPerGo === null ? gap : 0.8 * this.#msPerGo + 0.2 * gap
    }
    this.#lastGoMs = nowMs
  }

  /** How long it takes at the present pace until the queue of now is through. */
  #retryAfterMs(): number {
    if (this.#msPerGo === null) return RETRY_MS_DEFAULT
    const wait = Math.ceil(this.#msPerGo * (this.#queue.requests + 1))
    return Math.min(Math.max(wait, 100), RETRY_MS_MAX)
  }
}

function closing(): BatonError {
  return new BatonError('backend.worker_unavailable', 'the router is closing', {
    data: { stage: 'queue' },
  })
}

/** Nothing in the request narrows the candidates. */
function isPlain({ request, phase, affinity }: SelectionQuery): boolean {
  const { routing } = request
  return (
    pinOf(routing, phase) === null &&
    (affinity === null || affinity === undefined) &&
    routing.allowedWorkerIds === undefined &&
    routing.excludedWorkerIds === undefined &&
    routing.loraName === undefined &&
    routing.requiredTaints === undefined
  )
}
