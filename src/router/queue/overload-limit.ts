/**
 * How many requests may be queued for a pool under overload, and how many of them inside its engines: as many as the
 * pool starts within `overloadWaitMs`. Without overload the queue has its own limits.
 */
import { BatonError } from '../../base/index.ts'
import type { PoolCapacity } from '../capacity/pool-capacity.ts'
import type { QueueDemand } from '../capacity/rank-judge.ts'
import type { QueueRank } from './class-queue.ts'
import { ClassShares } from './class-shares.ts'
import { FlowMeter } from './flow-meter.ts'
import type { Flow, ToldFlow } from './flow-meter.ts'
import type { RankSet } from './rank-set.ts'

const RETRY_MS_DEFAULT = 1000
const RETRY_MS_MAX = 30_000
/** A request that waited this long may use places that other frontends have taken more than their share of. */
const WAITED_MS = 250
/** Requests that waited this many times the wait of an overload have waited long. */
const LONG_WAITS = 2
/** At least one request may always be queued. */
export const LINE_MIN = 1
/** Share of the allowed wait that requests may spend in the engine's own queue. */
const ENGINE_SHARE = 0.5

interface OverloadLimitOptions {
  readonly capacity: PoolCapacity
  /** The pool of the following leg: requests wait here rather than there. */
  readonly next: PoolCapacity | null
  /** The wait to aim for under overload; 0: no limit. */
  readonly overloadWaitMs: number
  /** Number of requests that are queued now. */
  readonly queued: () => number
  /** Tells the other frontends what arrived here and what was done. */
  readonly tellFlow?: ((flow: Flow) => void) | undefined
}

export class OverloadLimit {
  readonly #options: OverloadLimitOptions
  readonly #flow: FlowMeter
  readonly #shares = new ClassShares()
  /** Wait of the last request that was sent, and since when none has been sent. */
  #lastWaitMs = 0
  #stillSinceMs = 0
  /** The last call of `boundEngines` has changed the limits of the workers. */
  #isBounding = false
  #isLimiting = false

  constructor(options: OverloadLimitOptions) {
    this.#options = options
    const { capacity, next, queued, tellFlow } = options
    this.#flow = new FlowMeter({
      // A client sends its next request when the last leg has ended, however far the prefills are.
      ended: () => next?.handedOverEnded ?? capacity.endedCount,
      waiting: queued,
      waitsLong: (nowMs) => this.#hasWaited(nowMs, LONG_WAITS * options.overloadWaitMs),
      ...(tellFlow && { tell: tellFlow }),
    })
  }

  arrived(rank: QueueRank, nowMs: number): void {
    this.#flow.arrived(nowMs)
    this.#shares.arrived(rank, nowMs)
  }

  /** What arrived at another frontend, and what was done there. */
  heard(flow: ToldFlow, nowMs: number): void {
    this.#flow.heard(flow, nowMs)
  }

  /** A request was sent without having been queued. */
  sentAtOnce(nowMs: number): void {
    this.#flow.gone(nowMs)
    this.#shares.gone(nowMs)
    if (this.#isBounding) this.boundEngines(nowMs)
  }

  /** A queued request was sent. */
  sent(nowMs: number, waitedMs: number): void {
    this.#flow.gone(nowMs)
    this.#shares.gone(nowMs)
    this.#stillSinceMs = nowMs
    this.#lastWaitMs = waitedMs
  }

  /** The first request is queued. */
  queueBegan(nowMs: number): void {
    this.#stillSinceMs = nowMs
  }

  /** By the last call of `boundEngines`: the queue is limited because of an overload. */
  get isLimiting(): boolean {
    return this.#isLimiting
  }

  /** Requests sent per millisecond; null: not known yet. */
  rate(nowMs: number): number | null {
    return this.#flow.rate(nowMs)
  }

  /**
   * Under overload: how many requests may be queued for the same ranks before such a one, by the share of these ranks.
   * Null: the queue's own limits apply.
   */
  line(rank: QueueRank, { share }: RankSet, nowMs: number): number | null {
    const work = this.#work(nowMs)
    if (work === null || this.#shares.isWithinShare(rank, nowMs)) return null
    return Math.max(Math.ceil(share * (Math.ceil(work) - this.#waitingBehind())), LINE_MIN)
  }

  /**
   * Limits the engines' own queues: several requests ahead on a slow engine would exceed the intended wait. Also where
   * requests wait long without an overload: other frontends may have detected it and lowered their limit. This one
   * would keep the places that they leave, so that its own excess stays too small to be detected and its queue grows.
   */
  boundEngines(nowMs: number): void {
    const { capacity, next } = this.#options
    const work = this.#work(nowMs) ?? this.#workOfLongWait(nowMs)
    const hasWaited = this.#hasWaited(nowMs, WAITED_MS)
    const routers = this.#routers(nowMs)
    this.#isLimiting = work !== null
    this.#isBounding = work !== null || hasWaited
    const demandOn = ({ rankCount }: PoolCapacity): QueueDemand => {
      const perRank = ((work ?? 0) * ENGINE_SHARE) / Math.max(rankCount, 1)
      return {
        queueMax: work === null ? null : Math.max(Math.ceil(perRank), 1),
        hasWaited,
        routers,
      }
    }
    next?.judge.setDemand(demandOn(next), true)
    capacity.judge.setDemand(demandOn(capacity))
  }

  /** The refusal of a request beyond `limit`, the present line, where so many are queued for the same ranks. */
  refusal(limit: number, current: number, nowMs: number): BatonError {
    const retryAfterMs = Math.min(Math.max(1000 * this.#flow.excess(nowMs), 1000), RETRY_MS_MAX)
    return new BatonError(
      'capacity.pool_exhausted',
      `overloaded: requests arrive faster than the workers start them, ${current} are already queued`,
      { data: { stage: 'queue', limit, current, retryAfterMs: Math.ceil(retryAfterMs) } },
    )
  }

  /** Time to work off the present queue at the present rate. */
  retryAfterMs(nowMs: number): number {
    const rate = this.#flow.rate(nowMs)
    if (rate === null) return RETRY_MS_DEFAULT
    const wait = Math.ceil((this.#options.queued() + 1) / rate)
    return Math.min(Math.max(wait, 100), RETRY_MS_MAX)
  }

  /** Requests sent from here that are still queued, inside the workers or for the next leg. */
  #waitingBehind(): number {
    const { capacity, next } = this.#options
    const there = next === null ? 0 : next.waitingInside + next.waitingOutside()
    return capacity.waitingInside + there
  }

  /** Under overload: the number of requests that start within `overloadWaitMs`, including those queued inside workers. */
  #work(nowMs: number): number | null {
    const { overloadWaitMs } = this.#options
    if (overloadWaitMs === 0 || !this.#flow.isOverloaded(nowMs)) return null
    return this.#startedWithin(overloadWaitMs, nowMs)
  }

  /** The same where requests wait long although no overload was detected, unless other frontends have more places. */
  #workOfLongWait(nowMs: number): number | null {
    const { overloadWaitMs, capacity } = this.#options
    if (overloadWaitMs === 0 || !this.#hasWaited(nowMs, LONG_WAITS * overloadWaitMs)) return null
    return capacity.hasShareInside(this.#routers(nowMs))
      ? this.#startedWithin(overloadWaitMs, nowMs)
      : null
  }

  /** At least 2, as another one may not be known. */
  #routers(nowMs: number): number {
    return Math.max(this.#flow.routers(nowMs), 2)
  }

  #startedWithin(waitMs: number, nowMs: number): number {
    // A router that got less than its share needs the queue to get more.
    return Math.max(this.#flow.rate(nowMs) ?? 0, this.#flow.fairRate(nowMs)) * waitMs
  }

  #hasWaited(nowMs: number, ms: number): boolean {
    if (this.#options.queued() === 0) return false
    return this.#lastWaitMs >= ms || nowMs - this.#stillSinceMs >= ms
  }
}
