/**
 * Whether another prompt may be computed now, so that it finds a place in the decode pool when it is done.
 *
 * A prompt that is computed before that waits for decode, and it can no longer be refused. Decode places are booked only
 * when a prefill ends (with bootstrap when it begins), so the prefills under way count as well: one free place would
 * otherwise start as many prefills as the prefill pool can run. Places that become free while a prompt is computed are
 * added, because with slow prefills the decode workers would run dry.
 *
 * A request may be restricted to some decode ranks: by a domain that KV must not leave, a pin, a session, an adapter or a
 * taint. A group of ranks has room for another request if it still has after each rank has lost what the more restricted
 * requests take of it, but not more than it has: too many requests for one rank take nothing of another. And what any wider
 * group has under way or queued must still fit. So a place that becomes free is open for all that could use it, and the queue
 * decides by priority whose it is.
 */
import type { Clock } from '../../base/index.ts'
import { bootstrapAddress } from '../../request/index.ts'
import { GroupLoads, ROUNDING } from '../capacity/group-loads.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import type { SelectionQuery } from '../decide/selection.ts'
import { ANYWHERE } from '../ranks/rank-group.ts'
import type { RankGroup } from '../ranks/rank-group.ts'
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

const NO_DOMAIN: TransferDomain = { prefill: [], decode: [] }

/** What all groups share until something changes. */
interface Loads {
  /** Decode legs that are queued. They wait for ranks that are full: they take none of the places that are free now. */
  readonly queued: GroupLoads
  /** Prefills of other frontends that need a place. */
  readonly others: GroupLoads
  /** Places of each decode rank that become free while a prompt is computed. */
  readonly freedEach: number
}

export class HandOverRoom {
  readonly #prefill: KvRouter
  readonly #decode: KvRouter
  readonly #clock: Clock
  readonly #domains: TransferDomains
  /** Made once, because a decision asks for each prefill rank. */
  readonly #groups = new WeakMap<RankSet, WeakMap<TransferDomain, RankGroup>>()
  /** By key of the group: whether another request of it, or of a narrower one, has room; and whether one may begin. */
  readonly #answers = new FreshAnswers<boolean>()
  readonly #open = new FreshAnswers<boolean>()
  readonly #loads = new FreshAnswers<Loads>()
  /** Of the present fleet; a queued request is asked for after each change of load. */
  readonly #sets = new WeakMap<
    SelectionQuery,
    { readonly version: number; readonly set: RankSet }
  >()
  /** Ranks that take the KV of others, in the order of the pool. */
  #decodeRanks: { readonly version: number; readonly slots: readonly number[] } | null = null
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
    const group = this.groupOf(slot, next)
    if (group.slots === null) return this.#isOpen()
    if (group.slots.length === 0) return true
    return this.#open.of(group.key, this.#moment(), () => this.#isOpenIn(group))
  }

  #isOpenIn(group: RankGroup): boolean {
    if (!this.#hasRoom(group)) return false
    const { queued, others } = this.#current()
    const { waiting } = this.#prefill.capacity.underWay
    return [waiting, queued, others].every((loads) =>
      loads.wider(group).every((wide) => this.#hasRoom(wide)),
    )
  }

  groupOf(slot: number, next: SelectionQuery | undefined): RankGroup {
    const domain = this.#domains.of(slot)
    const ranks = next === undefined ? ALL_RANKS : this.ranksOf(next)
    const groups = this.#groups.get(ranks) ?? new WeakMap<TransferDomain, RankGroup>()
    this.#groups.set(ranks, groups)
    const known = groups.get(domain ?? NO_DOMAIN)
    if (known !== undefined) return known
    const group = this.#groupIn(domain, ranks)
    groups.set(domain ?? NO_DOMAIN, group)
    return group
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

  #groupIn(domain: TransferDomain | null, { slots }: RankSet): RankGroup {
    if (domain === null) return this.#normal(slots)
    const { decode } = domain
    return this.#normal(slots === null ? decode : slots.filter((slot) => decode.includes(slot)))
  }

  /** Without the aggregated ranks of a mixed pool: what is queued for these takes no place of a prefill. */
  #takingKv(slots: readonly number[] | null): readonly number[] | null {
    if (slots === null || this.#allSlots().length === this.#decode.slots.length) return slots
    const { capacity } = this.#decode
    return slots.filter(
      (slot) => capacity.isInUse(slot) && this.#decode.cardAt(slot).mode === 'decode',
    )
  }

  /** All ranks that take the KV of others are one group, however it is named. */
  #normal(slots: readonly number[] | null, key?: string): RankGroup {
    if (slots === null || slots.length === this.#allSlots().length) return ANYWHERE
    return { key: key ?? keyOfSlots(slots), slots }
  }

  #allSlots(): readonly number[] {
    const { fleetVersion: version, slots } = this.#decode
    if (this.#decodeRanks?.version !== version) {
      const ofMode = slots.filter((slot) => this.#decode.cardAt(slot).mode === 'decode')
      this.#decodeRanks = { version, slots: ofMode }
    }
    return this.#decodeRanks.slots
  }

  #isOpen(): boolean {
    const { fullCount, rankCount } = this.#decode.capacity
    const ranks = this.#allSlots().length
    if (ranks === 0) return true
    // Most requests need no sum over ranks: as many ranks as there are prefills under way have a place, and one more.
    const isIdle = this.#prefill.capacity.underWay.waiting.count < rankCount - fullCount
    return (isIdle && ranks === rankCount) || this.#hasRoom(ANYWHERE)
  }

  #hasRoom(group: RankGroup): boolean {
    return this.#answers.of(group.key, this.#moment(), () => this.#judge(group))
  }

  #moment(): Moment {
    return { version: this.version, nowMs: this.#clock.nowMs() }
  }

  #judge(group: RankGroup): boolean {
    const { capacity } = this.#decode
    const own = this.#prefill.capacity.underWay.waiting
    const { queued, others, freedEach } = this.#current()
    const slots = group.slots ?? this.#allSlots()
    // Mostly nothing restricts any request.
    const isPlain = !own.hasGroups && !others.hasGroups && !queued.hasGroups
    const aroundOwn = own.around(group)
    const aroundOthers = others.around(group)
    const aroundQueued = queued.around(group)
    let [now, room] = [0, 0]
    for (const slot of slots) {
      // What is under way or queued may be older than the fleet.
      if (!capacity.isInUse(slot)) continue
      const places = capacity.freePlacesAt(slot)
      if (places === Infinity) return true
      const taken = isPlain ? 0 : own.on(slot, aroundOwn) + others.on(slot, aroundOthers)
      const freed = isPlain ? freedEach : Math.max(freedEach - queued.on(slot, aroundQueued), 0)
      now += Math.max(places - taken, 0)
      room += Math.max(places + freed - taken, 0)
    }
    // Those of other frontends that may go anywhere come to these ranks by their share.
    const share = slots.length / Math.max(this.#allSlots().length, 1)
    const wanted =
      own.countOf(group) +
      others.countOf(group) +
      (group.slots === null ? 0 : share * others.anywhere)
    // Parts of requests were added up: what is left by rounding is no place.
    return wanted + ROUNDING < Math.max(room - queued.countOf(group), now)
  }

  #current(): Loads {
    return this.#loads.of('', this.#moment(), () => this.#newLoads())
  }

  #newLoads(): Loads {
    const queued = new GroupLoads()
    for (const { ranks, requests } of this.#decode.capacity.waitingByGroup()) {
      const slots = this.#takingKv(ranks.slots)
      if (slots?.length === 0) continue
      queued.add(
        slots === ranks.slots ? this.#normal(slots, ranks.key) : this.#normal(slots),
        requests,
      )
    }
    const others = new GroupLoads()
    const byDomain = new Map<TransferDomain | null, number[]>()
    for (const slot of this.#prefill.slots) {
      // With bootstrap their decode legs have places already, or wait for one.
      if (bootstrapAddress(this.#prefill.cardAt(slot)) !== null) continue
      const domain = this.#domains.of(slot)
      const known = byDomain.get(domain)
      if (known === undefined) byDomain.set(domain, [slot])
      else known.push(slot)
    }
    for (const slots of byDomain.values()) {
      const group = this.groupOf(slots[0] as number, undefined)
      if (group.slots?.length !== 0) others.add(group, this.#prefill.capacity.othersInside(slots))
    }
    return { queued, others, freedEach: this.#freedEach(others.count) }
  }

  /** Places that become free per rank while a prompt is computed, of those of this router and of others. */
  #freedEach(others: number): number {
    const { meanMs, waiting } = this.#prefill.capacity.underWay
    const own = Math.max(waiting.count, 1)
    const routers = (own + others) / own
    // The aggregated ranks of a mixed pool complete requests, too.
    const untilMs = meanMs + SLACK_MS
    return (this.#endRate() * untilMs * routers) / Math.max(this.#decode.slots.length, 1)
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
