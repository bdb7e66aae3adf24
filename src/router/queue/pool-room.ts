/**
 * Whether a pool has capacity for a request now: a rank that it may go to, below the thresholds of its class, and,
 * for a prefill, a decode worker that could continue it.
 */
import type { Clock } from '../../base/index.ts'
import { isQueueing } from '../configuration/policy-class.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import { FreshAnswers } from './fresh.ts'
import { HandOverRoom } from './hand-over-room.ts'
import { needsDecode } from '../decide/selection.ts'
import type { SelectionQuery } from '../decide/selection.ts'
import type { ClassQueue } from './class-queue.ts'
import { inBoth, rankSetOf } from './rank-set.ts'
import type { RankSet } from './rank-set.ts'

export class PoolRoom {
  readonly #router: KvRouter
  readonly #clock: Clock
  readonly #handOver: HandOverRoom | null
  /** By key of the set of ranks. */
  readonly #answers = new Map<ClassQueue, FreshAnswers<boolean>>()

  /** `next`: the pool of the following leg. */
  constructor(router: KvRouter, clock: Clock, next: KvRouter | null) {
    this.#router = router
    this.#clock = clock
    this.#handOver = next === null ? null : new HandOverRoom(router, next, clock)
    router.onward = this.#handOver
  }

  mustWait(queue: ClassQueue, query: SelectionQuery): boolean {
    const { policyClass } = queue
    const isBounded = this.#router.config.engineQueue !== null
    if (!isQueueing(policyClass) && !isBounded) return false
    const isBehind = queue.requests > 0 && queue.isBefore(this.ranksOf(query))
    if (!isBehind && !isQueueing(policyClass) && this.#hasRoomEverywhere(query)) return false
    const eligible = this.#router.eligible(query)
    if (eligible.length === 0) return false
    return isBehind || !this.#hasRoomIn(queue, query, eligible)
  }

  ranksOf(query: SelectionQuery): RankSet {
    const ranks = rankSetOf(this.#router, query)
    const next = query.next === undefined ? undefined : this.#handOver?.ranksOf(query.next)
    return next === undefined ? ranks : inBoth(ranks, next)
  }

  /**
   * The check for a queued request; to be called again after every change. Requests for the same ranks share one answer until
   * something changes; in a long queue that is most of them.
   */
  canGo(queue: ClassQueue, query: SelectionQuery, { key }: RankSet): boolean {
    if (this.#router.config.filters.length > 0) return this.#hasRoom(queue, query)
    const version = this.#handOver?.version ?? this.#router.capacity.version
    const now = { version, nowMs: this.#clock.nowMs() }
    return this.#answersOf(queue).of(key, now, () => this.#hasRoom(queue, query))
  }

  #answersOf(queue: ClassQueue): FreshAnswers<boolean> {
    const known = this.#answers.get(queue)
    if (known !== undefined) return known
    const answers = new FreshAnswers<boolean>()
    this.#answers.set(queue, answers)
    return answers
  }

  #hasRoomEverywhere(query: SelectionQuery): boolean {
    if (this.#router.capacity.fullCount > 0) return false
    const handOver = this.#handOverOf(query)
    return handOver === null || (query.next === undefined && handOver.isOpenEverywhere())
  }

  /** A prefill is not started while no decode worker has capacity for it. */
  #handOverOf(query: SelectionQuery): HandOverRoom | null {
    return needsDecode(query) ? this.#handOver : null
  }

  #isBusy({ policyClass }: ClassQueue, slot: number): boolean {
    if (this.#router.capacity.isFull(slot)) return true
    const { prefillBusyThreshold: limit, prefillBusyShare: share } = policyClass
    if (limit === null && share === null) return false
    const { prefillTokens, maxBatchedTokens } = this.#router.loadOf(slot)
    if (limit !== null && prefillTokens > limit) return true
    return share !== null && prefillTokens > share * maxBatchedTokens
  }

  #hasRoom(queue: ClassQueue, query: SelectionQuery): boolean {
    const eligible = this.#router.eligible(query)
    return eligible.length === 0 || this.#hasRoomIn(queue, query, eligible)
  }

  #hasRoomIn(queue: ClassQueue, query: SelectionQuery, eligible: readonly number[]): boolean {
    const handOver = this.#handOverOf(query)
    return eligible.some(
      (slot) => !this.#isBusy(queue, slot) && handOver?.isOpenFor(slot, query.next) !== false,
    )
  }
}
