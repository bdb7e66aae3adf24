/**
 * Whether another prompt may be computed now, so that it finds a place in the decode pool when it is done.
 *
 * A prompt that is computed before that waits for decode, and it can no longer be refused. Decode places are booked only
 * when a prefill ends, so the prefills under way count as well: one free place would otherwise start as many prefills as
 * the prefill pool can run. Places that become free while a prompt is computed are added, because with slow prefills the
 * decode workers would run dry. Where KV must stay inside a domain, each domain is judged apart.
 */
import type { Clock } from '../../base/index.ts'
import type { KvRouter } from '../decide/kv-router.ts'
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

interface KnownRoom {
  readonly version: number
  readonly nowMs: number
  readonly isOpen: boolean
}

export class HandOverRoom {
  readonly #prefill: KvRouter
  readonly #decode: KvRouter
  readonly #clock: Clock
  readonly #domains: TransferDomains
  /** Until something changes; by domain, or `this` for the whole pool. */
  readonly #known = new WeakMap<object, KnownRoom>()
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

  /** For any prefill rank. */
  isOpenEverywhere(): boolean {
    return !this.hasDomains && this.#isOpen()
  }

  /** For the KV of this prefill rank. Without a decode worker in its domain it is open: the check of the pair refuses. */
  isOpenFor(slot: number): boolean {
    const domain = this.#domains.of(slot)
    if (domain === null) return this.#isOpen()
    return domain.decode.length === 0 || this.#hasPlaces(domain)
  }

  #isOpen(): boolean {
    const { fullCount, rankCount } = this.#decode.capacity
    // Most requests need no sum over ranks.
    const isIdle = this.#prefill.capacity.underWay.count < rankCount - fullCount
    return rankCount === 0 || isIdle || this.#hasPlaces(null)
  }

  #hasPlaces(domain: TransferDomain | null): boolean {
    const { version } = this
    const nowMs = this.#clock.nowMs()
    const known = this.#known.get(domain ?? this)
    if (known?.version === version && known.nowMs === nowMs) return known.isOpen
    const isOpen = this.#judge(domain)
    this.#known.set(domain ?? this, { version, nowMs, isOpen })
    return isOpen
  }

  #judge(domain: TransferDomain | null): boolean {
    const [prefill, decode] = [this.#prefill.capacity, this.#decode.capacity]
    const places = decode.freePlaces(domain?.decode)
    if (places === Infinity) return true
    const own = domain === null ? prefill.underWay.count : prefill.underWay.countOn(domain.prefill)
    // Those of other frontends need places, too.
    const all = own + prefill.othersInside(domain?.prefill)
    const share = domain === null ? 1 : domain.decode.length / decode.rankCount
    return all + decode.waitingOutside(domain?.taint) < places + this.#freed(own, all, share)
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
