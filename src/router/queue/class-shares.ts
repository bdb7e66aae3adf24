/**
 * Which strict priorities and tenants are not to blame for an overload: as much as arrives of them could be served if
 * higher priorities went first and the tenants of a priority shared the rest. Their requests are a burst at most, so
 * they are queued where others are refused.
 *
 * Judged by the last whole window. Bounded: further priorities and tenants than `CLASSES_MAX` count as to blame.
 */
import type { QueueRank } from './class-queue.ts'

const WINDOW_MS = 3000
const CLASSES_MAX = 256

interface Arrivals {
  readonly strictPriority: number
  weight: number
  count: number
}

export class ClassShares {
  #index = -1
  #gone = 0
  #arrivals = new Map<string, Arrivals>()
  #within: ReadonlySet<string> = new Set()

  arrived(rank: QueueRank, nowMs: number): void {
    this.#turn(nowMs)
    const key = keyOf(rank)
    const known = this.#arrivals.get(key)
    if (known !== undefined) {
      known.count++
      known.weight = rank.tenantWeight
    } else if (this.#arrivals.size < CLASSES_MAX) {
      const { strictPriority, tenantWeight: weight } = rank
      this.#arrivals.set(key, { strictPriority, weight, count: 1 })
    }
  }

  gone(nowMs: number): void {
    this.#turn(nowMs)
    this.#gone++
  }

  isWithinShare(rank: QueueRank, nowMs: number): boolean {
    this.#turn(nowMs)
    return this.#within.has(keyOf(rank))
  }

  #turn(nowMs: number): void {
    const index = Math.floor(nowMs / WINDOW_MS)
    if (index === this.#index) return
    const isNext = index === this.#index + 1
    this.#within = isNext ? within(this.#arrivals, this.#gone) : new Set()
    this.#index = index
    this.#gone = 0
    this.#arrivals = new Map()
  }
}

/** The classes that could be served; none if there is only one, as the overload is its own. */
function within(arrivals: ReadonlyMap<string, Arrivals>, gone: number): Set<string> {
  const served = new Set<string>()
  if (arrivals.size < 2) return served
  const priorities = new Set([...arrivals.values()].map(({ strictPriority }) => strictPriority))
  let left = gone
  for (const priority of [...priorities].sort((a, b) => b - a)) {
    const classes = [...arrivals].filter(([, { strictPriority }]) => strictPriority === priority)
    const weights = classes.reduce((sum, [, { weight }]) => sum + weight, 0)
    for (const [key, { weight, count }] of classes) {
      if (count <= (left * weight) / weights) served.add(key)
    }
    left -= classes.reduce((sum, [, { count }]) => sum + count, 0)
  }
  return served
}

const keyOf = ({ strictPriority, tenant }: QueueRank): string => `${strictPriority}\n${tenant}`
