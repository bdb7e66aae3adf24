/**
 * The queued requests of one policy class, in the order in which they may be sent.
 *
 * Requests wait in lanes, one per tenant and set of ranks (`rank-set.ts`), so that a request waits only for those that need
 * the same workers, and a tenant with a thousand requests delays only itself. Order between lanes: strict priority, then the
 * tenant that has been served least (weighted fair queueing), then the order of the class.
 */
import type { PolicyClass } from '../configuration/policy-class.ts'
import type { RankSet } from './rank-set.ts'

export interface QueueEntry {
  readonly requestId: string
  readonly promptTokens: number
  readonly cachedTokens: number
  /** Uncached prompt tokens, at least 1: what the request consumes of its class's quantum. */
  readonly cost: number
  readonly strictPriority: number
  readonly priority: number
  readonly tenant: string
  /** Share of the tenant relative to other tenants with queued requests; above 0. */
  readonly tenantWeight: number
  /** As of the present fleet. */
  ranks: RankSet
  readonly arrivedMs: number
  /** When it must be sent to meet its goal; without a goal, the end of its patience (`PATIENCE_MS`). */
  readonly startByMs: number
  /** It can no longer meet its goal: requests that still can go first. */
  isLate: boolean
  /** True if a rank that it may go to is not busy. */
  canGo(): boolean
}

/** What determines an entry's position, besides its arrival. */
export type QueueRank = Pick<QueueEntry, 'strictPriority' | 'tenant' | 'tenantWeight'>

/** An entry, or one that has not arrived yet. */
type Newcomer = QueueRank & Pick<QueueEntry, 'ranks'>

interface Placed {
  readonly entry: QueueEntry
  readonly score: number
  readonly order: number
}

/** Queued requests of one set of ranks. */
interface Waiting {
  readonly ranks: RankSet
  requests: number
  /** By tenant, each in its order. Found by set, because there may be a thousand sets. */
  readonly lanes: Map<string, Placed[]>
  /** By strict priority and tenant. */
  readonly byPriority: Map<number, Map<string, number>>
}

interface Tenant {
  /** Tokens served while other tenants had queued requests, divided by the weight. */
  served: number
  waiting: number
  weight: number
}

/** Puts late requests behind all that can still meet their goals. */
const LATE_SECONDS = 1e9

/**
 * Higher goes first. For fcfs and lcfs the unit is seconds, so that one priority point equals one second of earlier
 * arrival. `fcfs` orders by latest start time; without goals this is the order of arrival.
 */
function queueScore(policyClass: PolicyClass, entry: QueueEntry): number {
  // A negative priority gives no head start in the queue, but is still sent to the engine.
  const jump = Math.max(entry.priority, 0)
  switch (policyClass.queuePolicy) {
    case 'fcfs':
      return jump - entry.startByMs / 1000 - (entry.isLate ? LATE_SECONDS : 0)
    case 'lcfs':
      return jump + entry.arrivedMs / 1000
    case 'wspt':
      return (1 + jump) / entry.cost
  }
}

export class ClassQueue {
  readonly policyClass: PolicyClass
  /** Deficit round robin: tokens that the class may still send in its turn. */
  deficit = 0
  requests = 0
  promptTokens = 0
  cachedTokens = 0
  readonly #tenants = new Map<string, Tenant>()
  /** By key of the set of ranks. */
  readonly #bySet = new Map<string, Waiting>()
  #order = 0
  /** Sum of all queued entries. */
  #cost = 0

  constructor(policyClass: PolicyClass) {
    this.policyClass = policyClass
  }

  add(entry: QueueEntry): void {
    const placed = { entry, score: queueScore(this.policyClass, entry), order: this.#order++ }
    this.#place(placed)
    this.#tenantOf(entry).waiting++
    this.requests++
    this.#cost += entry.cost
    this.promptTokens += entry.promptTokens
    this.cachedTokens += entry.cachedTokens
  }

  /** The sets of ranks that requests wait for. */
  get sets(): readonly RankSet[] {
    return Array.from(this.#bySet.values(), ({ ranks }) => ranks)
  }

  requestsOf({ key }: Pick<RankSet, 'key'>): number {
    return this.#bySet.get(key)?.requests ?? 0
  }

  /** True if a request must not pass those that wait: they wait for the same ranks, or could be sent now. */
  isBefore(ranks: RankSet): boolean {
    return this.requestsOf(ranks) > 0 || this.head() !== null
  }

  /** The fleet has changed: sorts the requests anew. */
  regroup(ranksOf: (entry: QueueEntry) => RankSet): void {
    const all = this.#lanes().flat()
    this.#bySet.clear()
    for (const placed of all) {
      placed.entry.ranks = ranksOf(placed.entry)
      this.#place(placed)
    }
  }

  /** The next request that can be sent, or null. */
  head(): QueueEntry | null {
    let best: Placed | null = null
    for (const { lanes } of this.#bySet.values()) {
      for (const lane of lanes.values()) {
        const first = lane[0]
        if (first === undefined || (best !== null && !this.#goesBefore(first, best))) continue
        if (first.entry.canGo()) best = first
      }
    }
    return best?.entry ?? null
  }

  /** Removes an entry, because it is sent (`served`) or no longer waits. */
  remove(entry: QueueEntry, served: boolean): boolean {
    const set = this.#bySet.get(entry.ranks.key)
    const lane = set?.lanes.get(entry.tenant)
    const at = lane?.findIndex((placed) => placed.entry === entry) ?? -1
    if (set === undefined || lane === undefined || at === -1) return false
    lane.splice(at, 1)
    if (lane.length === 0) set.lanes.delete(entry.tenant)
    if (--set.requests === 0) this.#bySet.delete(entry.ranks.key)
    count(set, entry, -1)
    const tenant = this.#tenantOf(entry)
    tenant.waiting--
    if (served) tenant.served += entry.cost / tenant.weight
    if (tenant.waiting === 0 && this.#tenants.size > MAX_IDLE_TENANTS) {
      this.#tenants.delete(entry.tenant)
    }
    this.requests--
    this.#cost -= entry.cost
    this.promptTokens -= entry.promptTokens
    this.cachedTokens -= entry.cachedTokens
    if (this.requests === 0) {
      this.deficit = 0
      this.#tenants.clear()
    }
    return true
  }

  /**
   * How many requests for the same ranks would go before it: all with a higher strict priority, those of its own tenant, and
   * of each other tenant as many as have their turn sooner. So a tenant with a thousand requests does not push back another
   * one, and a tenant that is due is never behind all others, however many they are.
   */
  countAhead(entry: Newcomer): number {
    let count = 0
    const step = this.meanCost()
    const served = this.#servedOf(entry.tenant)
    for (const [priority, tenants] of this.#bySet.get(entry.ranks.key)?.byPriority ?? []) {
      if (priority < entry.strictPriority) continue
      const turn = served + ((tenants.get(entry.tenant) ?? 0) * step) / entry.tenantWeight
      for (const [tenant, waiting] of tenants) {
        const isOther = priority === entry.strictPriority && tenant !== entry.tenant
        if (!isOther) count += waiting
        else {
          const other = this.#tenants.get(tenant) ?? NOBODY
          const sooner = Math.floor(((turn - other.served) * other.weight) / step) + 1
          count += Math.max(Math.min(waiting, sooner), 0)
        }
      }
    }
    return count
  }

  /**
   * How many requests for the same ranks, of the same or a higher strict priority, would go before it in class order,
   * regardless of tenants.
   */
  countSooner(entry: QueueEntry): number {
    const score = queueScore(this.policyClass, entry)
    let count = 0
    for (const lane of this.#bySet.get(entry.ranks.key)?.lanes.values() ?? []) {
      for (const { entry: held, score: own } of lane) {
        const isAbove = held.strictPriority > entry.strictPriority
        if (isAbove || (held.strictPriority === entry.strictPriority && own >= score)) count++
      }
    }
    return count
  }

  /**
   * The entry to displace first, of all or of those that wait for these ranks: lowest strict priority, then the tenant whose
   * last turn is latest, then the last one.
   */
  last(only: RankSet | null = null): QueueEntry | null {
    let worst: Placed | null = null
    const lanes = only === null ? this.#lanes() : (this.#bySet.get(only.key)?.lanes.values() ?? [])
    for (const lane of lanes) {
      const end = lane.at(-1)
      if (end !== undefined && (worst === null || this.#isGivenUpBefore(end, worst))) worst = end
    }
    return worst?.entry ?? null
  }

  /** Tokens of a queued request on average; 1 if none is queued. */
  meanCost(): number {
    return this.requests === 0 ? 1 : this.#cost / this.requests
  }

  /** Rounds of deficit round robin until its last request begins, or one that would be added. */
  roundsBefore(last: QueueEntry | null): number {
    return (this.#cost - (last?.cost ?? 0)) / this.policyClass.quantum
  }

  /** Uncached tokens of its requests. */
  get cost(): number {
    return this.#cost
  }

  /** True if the last turn of the tenant of `held` is later than the turn that `entry` would have. */
  hasMoreThan(held: QueueEntry, entry: QueueEntry): boolean {
    if (held.tenant === entry.tenant) return false
    const own = this.#tenants.get(entry.tenant)?.waiting ?? 0
    const turn = this.#servedOf(entry.tenant) + (own * this.meanCost()) / entry.tenantWeight
    return this.#lastTurnOf(held) > turn
  }

  entries(): QueueEntry[] {
    return this.#lanes().flatMap((lane) => lane.map(({ entry }) => entry))
  }

  #isGivenUpBefore(a: Placed, b: Placed): boolean {
    if (a.entry.strictPriority !== b.entry.strictPriority) {
      return a.entry.strictPriority < b.entry.strictPriority
    }
    const difference = this.#lastTurnOf(a.entry) - this.#lastTurnOf(b.entry)
    return a.entry.tenant === b.entry.tenant || difference === 0 ? goesFirst(b, a) : difference > 0
  }

  /**
   * Turns are in the unit of `served`: the tenant with the earliest goes first. The last one of a tenant comes when all
   * its other queued requests have been served.
   */
  #lastTurnOf({ tenant }: QueueEntry): number {
    const { served, waiting, weight } = this.#tenants.get(tenant) ?? NOBODY
    return served + ((waiting - 1) * this.meanCost()) / weight
  }

  /** As `#tenantOf` counts it, for a tenant that may not wait yet. */
  #servedOf(name: string): number {
    const known = this.#tenants.get(name)
    if (known !== undefined && known.waiting > 0) return known.served
    return Math.max(known?.served ?? 0, this.#leastServed())
  }

  /** Of the tenants that wait; 0 when none does. */
  #leastServed(): number {
    let least = Infinity
    for (const { waiting, served } of this.#tenants.values()) {
      if (waiting > 0) least = Math.min(least, served)
    }
    return Number.isFinite(least) ? least : 0
  }

  #lanes(): Placed[][] {
    return [...this.#bySet.values()].flatMap(({ lanes }) => [...lanes.values()])
  }

  #place(placed: Placed): void {
    const { entry } = placed
    const { ranks, tenant } = entry
    const known = this.#bySet.get(ranks.key)
    const set = known ?? { ranks, requests: 0, lanes: new Map(), byPriority: new Map() }
    if (known === undefined) this.#bySet.set(ranks.key, set)
    const lane = set.lanes.get(tenant)
    if (lane === undefined) set.lanes.set(tenant, [placed])
    else lane.splice(placeIn(lane, placed), 0, placed)
    set.requests++
    count(set, entry, 1)
  }

  #goesBefore(a: Placed, b: Placed): boolean {
    if (a.entry.strictPriority !== b.entry.strictPriority) {
      return a.entry.strictPriority > b.entry.strictPriority
    }
    if (a.entry.tenant !== b.entry.tenant) {
      const difference = this.#tenantOf(a.entry).served - this.#tenantOf(b.entry).served
      if (difference !== 0) return difference < 0
    }
    return goesFirst(a, b)
  }

  /** A returning tenant starts level with the least served one: absence earns no credit. */
  #tenantOf(entry: QueueEntry): Tenant {
    const known = this.#tenants.get(entry.tenant)
    if (known !== undefined) known.weight = entry.tenantWeight
    if (known !== undefined && (known.waiting > 0 || this.requests === 0)) return known
    const level = this.#leastServed()
    const tenant = known ?? { served: level, waiting: 0, weight: entry.tenantWeight }
    tenant.served = Math.max(tenant.served, level)
    this.#tenants.set(entry.tenant, tenant)
    return tenant
  }
}

const MAX_IDLE_TENANTS = 1024
const NOBODY: Tenant = { served: 0, waiting: 0, weight: 1 }

function count({ byPriority }: Waiting, entry: QueueEntry, change: 1 | -1): void {
  const { strictPriority, tenant } = entry
  const tenants = byPriority.get(strictPriority) ?? new Map<string, number>()
  const waiting = (tenants.get(tenant) ?? 0) + change
  if (waiting === 0) tenants.delete(tenant)
  else tenants.set(tenant, waiting)
  if (tenants.size === 0) byPriority.delete(strictPriority)
  else byPriority.set(strictPriority, tenants)
}

function goesFirst(a: Placed, b: Placed): boolean {
  if (a.entry.strictPriority !== b.entry.strictPriority) {
    return a.entry.strictPriority > b.entry.strictPriority
  }
  if (a.score !== b.score) return a.score > b.score
  return a.order < b.order
}

/** Insertion index of a new entry in a sorted lane. */
function placeIn(lane: readonly Placed[], placed: Placed): number {
  let low = 0
  let high = lane.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (goesFirst(lane[middle] as Placed, placed)) low = middle + 1
    else high = middle
  }
  return low
}
