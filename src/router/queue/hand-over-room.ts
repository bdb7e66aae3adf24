/**
 * Whether another prompt may be computed now, so that it finds a place in the decode pool when it is done.
 *
 * A prompt that is computed before that waits for decode, and it can no longer be refused. Decode places are booked only
 * when a prefill ends (with bootstrap when it begins), so the prefills under way count as well: one free place would
 * otherwise start as many prefills as the prefill pool can run. Places that become free while a prompt is computed are added, because with slow prefills the
 * decode workers would run dry. Where KV must stay inside a domain, each domain is judged apart, and so are the decode ranks
 * that a restricted request may go to.
 */
import type { Clock } from '../../base/index.ts'
import { bootstrapAddress } from '../../request/index.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import type { SelectionQuery } from '../decide/selection.ts'
import { FreshAnswers } from './fresh.ts'
import type { Moment } from './fresh.ts'
import { ALL_RANKS, keyOfSlots, rankSetOf } from './rank-set.ts'
import type { RankSet } from './rank-set.ts'
import { TransferDomains } from './transfer-domains.ts'
import type { TransferDomain } from './transfer-domains.ts'

/** Load reports are late: so much decode work may wait, so that no decode worker runs dry. */
const SLACK_MS = 100
/** Time over which ends of decode requests are counted. */
const SPAN_MS = 600
/**
 * A lower count changes the rate by this share of the difference, a higher one at once: decode workers that run dry for
 * a moment must not reduce the number of prefills.
 */
const DECAY = 0.1

/** Decode ranks that a prefill may continue on. */
interface Goal {
  /** Of the decode ranks, as of the requests that are queued for them (`RankSet`). */
  readonly key: string
  /** Differs for goals that are judged apart. */
  readonly id: string
  readonly slots: readonly number[] | undefined
  /** Prefill ranks, the prefills of which go there; undefined: all. */
  readonly from: readonly number[] | undefined
  /** Equal for prefills whose decode legs have the same restrictions; empty: whatever restricts them. */
  readonly next: string
}

const ANYWHERE: Goal = { key: '', id: '', slots: undefined, from: undefined, next: '' }
const NO_DOMAIN: TransferDomain = { prefill: [], decode: [] }

export class HandOverRoom {
  readonly #prefill: KvRouter
  readonly #decode: KvRouter
  readonly #clock: Clock
  readonly #domains: TransferDomains
  /** Made once, because a decision asks for each prefill rank. */
  readonly #goals = new WeakMap<RankSet, WeakMap<TransferDomain, Goal>>()
  /** By id of the goal: whether there are places. */
  readonly #answers = new FreshAnswers<boolean>()
  /** Of the present fleet; a queued request is asked for after each change of load. */
  readonly #sets = new WeakMap<
    SelectionQuery,
    { readonly version: number; readonly set: RankSet }
  >()
  /** Requests of other routers inside all prefill workers. */
  readonly #others = new FreshAnswers<number>()
  #sinceMs = 0
  #endedBefore = 0
  /** Ends of decode requests per millisecond. */
  #rate = 0

  constructor(prefill: KvRouter, decode: KvRouter, clock: Clock) {
    this.#prefill = prefill
    this.#decode = decode
    this.#clock = clock
    this.#domains = new TransferDomains(prefill, decode)
  }

  /** KV must stay inside domains. */
  get hasDomains(): boolean {
    return this.#domains.areRequired
  }

  /** A counter that changes with every change of load or fleet in either pool. */
  get version(): number {
    return this.#prefill.capacity.version + this.#decode.capacity.version
  }

  /** For any prefill rank, and whatever restricts the decode leg. */
  isOpenEverywhere(): boolean {
    return !this.hasDomains && this.#isOpen()
  }

  /**
   * For a prefill on this rank and its decode leg. Without a decode worker that it may go to it is open: the checks before the
   * hand-over refuse.
   */
  isOpenFor(slot: number, next: SelectionQuery | undefined): boolean {
    const goal = this.#goalOf(this.#domains.of(slot), next)
    if (goal === ANYWHERE) return this.#isOpen()
    return goal.slots?.length === 0 || this.#hasPlaces(goal)
  }

  keyOf(next: SelectionQuery): string {
    return this.ranksOf(next).key
  }

  /** The decode ranks where this leg may run. */
  ranksOf(next: SelectionQuery): RankSet {
    const version = this.#decode.fleetVersion
    const known = this.#sets.get(next)
    if (known?.version === version) return known.set
    const set = rankSetOf(this.#decode, next)
    this.#sets.set(next, { version, set })
    return set
  }

  #goalOf(domain: TransferDomain | null, next: SelectionQuery | undefined): Goal {
    const ranks = next === undefined ? ALL_RANKS : this.ranksOf(next)
    const goals = this.#goals.get(ranks) ?? new WeakMap<TransferDomain, Goal>()
    this.#goals.set(ranks, goals)
    const known = goals.get(domain ?? NO_DOMAIN)
    if (known !== undefined) return known
    const goal = this.#makeGoal(domain, ranks)
    goals.set(domain ?? NO_DOMAIN, goal)
    return goal
  }

  #makeGoal(domain: TransferDomain | null, ranks: RankSet): Goal {
    if (ranks.slots === null) {
      // Where the domain has all decode ranks, the others have no prefills to continue.
      if (domain === null || domain.decode.length === this.#decode.slots.length) return ANYWHERE
      const { decode: slots, prefill: from } = domain
      const key = keyOfSlots(slots)
      return { key, id: `${key}>`, slots, from, next: '' }
    }
    const slots =
      domain === null ? ranks.slots : ranks.slots.filter((slot) => domain.decode.includes(slot))
    const key = domain === null ? ranks.key : keyOfSlots(slots)
    return { key, id: `${key}>${ranks.key}`, slots, from: undefined, next: ranks.key }
  }

  #isOpen(): boolean {
    const { fullCount, rankCount } = this.#decode.capacity
    // Most requests need no sum over ranks.
    const isIdle = this.#prefill.capacity.underWay.count < rankCount - fullCount
    return rankCount === 0 || isIdle || this.#hasPlaces(ANYWHERE)
  }

  #hasPlaces(goal: Goal): boolean {
    return this.#answers.of(goal.id, this.#moment(), () => this.#judge(goal))
  }

  #moment(): Moment {
    return { version: this.version, nowMs: this.#clock.nowMs() }
  }

  #judge({ key, slots, from, next }: Goal): boolean {
    const [prefill, decode] = [this.#prefill.capacity, this.#decode.capacity]
    const places = decode.freePlaces(slots)
    if (places === Infinity) return true
    const { underWay } = prefill
    const own =
      next !== ''
        ? underWay.countOf(next)
        : from === undefined
          ? underWay.count
          : underWay.countOn(from)
    const share = slots === undefined ? 1 : slots.length / decode.rankCount
    // Those of other frontends need places, too.
    const others = from === undefined ? share * this.#allOthers() : this.#othersOn(from)
    const all = own + others
    // Requests that wait for decode wait for ranks that are full: they take none of the places that are free now.
    const waiting = decode.waitingOutside(slots === undefined ? undefined : key)
    return all < places + Math.max(this.#freed(own, all, share) - waiting, 0)
  }

  #allOthers(): number {
    return this.#others.of('', this.#moment(), () => this.#othersOn(this.#prefill.slots))
  }

  /** With bootstrap their decode legs have places already, or wait for one. */
  #othersOn(slots: readonly number[]): number {
    const later = slots.filter((slot) => bootstrapAddress(this.#prefill.cardAt(slot)) === null)
    return this.#prefill.capacity.othersInside(later)
  }

  /** Places that become free while a prompt is computed, of those of this router and of others. */
  #freed(own: number, all: number, share: number): number {
    const untilMs = this.#prefill.capacity.underWay.meanMs + SLACK_MS
    return (share * this.#endRate() * untilMs * Math.max(all, 1)) / Math.max(own, 1)
  }

  #endRate(): number {
    const nowMs = this.#clock.nowMs()
    const elapsedMs = nowMs - this.#sinceMs
    if (elapsedMs >= SPAN_MS) {
      const { endedCount } = this.#decode.capacity
      const newest = (endedCount - this.#endedBefore) / elapsedMs
      this.#rate += (newest - this.#rate) * (newest > this.#rate ? 1 : DECAY)
      this.#endedBefore = endedCount
      this.#sinceMs = nowMs
    }
    return this.#rate
  }
}
