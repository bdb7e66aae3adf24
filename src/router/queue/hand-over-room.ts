/**
 * Whether another prompt may be computed now, so that it finds a place in the decode pool when it is done.
 *
 * A prompt that is computed before that waits for decode, and it can no longer be refused. Decode places are booked only
 * when a prefill ends, so the prefills under way count as well: one free place would otherwise start as many prefills as
 * the prefill pool can run. Places that become free while a prompt is computed are added, because with slow prefills the
 * decode workers would run dry.
 */
import type { Clock } from '../../base/index.ts'
import type { PoolCapacity } from '../capacity/pool-capacity.ts'

/** Load reports are late: so much decode work may wait, so that no decode worker runs dry. */
const SLACK_MS = 100
/** Time over which ends of decode requests are counted. */
const SPAN_MS = 600
/**
 * A lower count changes the rate by this share of the difference, a higher one at once: decode workers that run dry for
 * a moment must not reduce the number of prefills.
 */
const DECAY = 0.1

export class HandOverRoom {
  readonly #prefill: PoolCapacity
  readonly #decode: PoolCapacity
  readonly #clock: Clock
  #sinceMs = 0
  #endedBefore = 0
  /** Ends of decode requests per millisecond. */
  #rate = 0

  constructor(prefill: PoolCapacity, decode: PoolCapacity, clock: Clock) {
    this.#prefill = prefill
    this.#decode = decode
    this.#clock = clock
  }

  isOpen(): boolean {
    const { fullCount, rankCount } = this.#decode
    if (rankCount === 0) return true
    const own = this.#prefill.underWay.count
    // Most requests need no sum over ranks.
    if (own < rankCount - fullCount) return true
    const places = this.#decode.freePlaces
    if (places === Infinity) return true
    // Those of other frontends need places, too.
    const all = own + this.#prefill.othersInside
    const untilMs = this.#prefill.underWay.meanMs + SLACK_MS
    const freed = (this.#endRate() * untilMs * Math.max(all, 1)) / Math.max(own, 1)
    return all + this.#decode.waitingOutside() < places + freed
  }

  #endRate(): number {
    const nowMs = this.#clock.nowMs()
    const elapsedMs = nowMs - this.#sinceMs
    if (elapsedMs >= SPAN_MS) {
      const { endedCount } = this.#decode
      const newest = (endedCount - this.#endedBefore) / elapsedMs
      this.#rate += (newest - this.#rate) * (newest > this.#rate ? 1 : DECAY)
      this.#endedBefore = endedCount
      this.#sinceMs = nowMs
    }
    return this.#rate
  }
}
