/**
 * What waits in one policy class, in the order in which it may go.
 *
 * Requests wait in lanes, one for each tenant and pinned worker, so that a pinned request waits only for its own worker
 * and a tenant with a thousand requests only for itself. Between lanes: strict priority, then the tenant that has been
 * served least, then the class's own order.
 */
import type { PolicyClass } from './policy-class.ts'

export interface QueueEntry {
  readonly requestId: string
  readonly promptTokens: number
  readonly cachedTokens: number
  /** Uncached prompt tokens, at least 1: what the request takes from its class's turn. */
  readonly cost: number
  readonly strictPriority: number
  readonly priority: number
  readonly tenant: string
  /** The worker that it is pinned to; empty when it is not. */
  readonly pinned: string
  readonly arrivedMs: number
  /** A rank that it may go to is not busy. */
  canGo(): boolean
}

interface Placed {
  readonly entry: QueueEntry
  readonly score: number
  readonly order: number
}

interface Tenant {
  /** Tokens served while others waited too. */
  served: number
  waiting: number
}

/** Higher goes first; seconds for fcfs and lcfs, so that one priority point is one second of earlier arrival. */
function queueScore(policyClass: PolicyClass, entry: QueueEntry): number {
  // Below zero it is no head start; the engine is told all the same.
  const jump = Math.max(entry.priority, 0)
  const seconds = entry.arrivedMs / 1000
  switch (policyClass.queuePolicy) {
    case 'fcfs':
      return jump - seconds
    case 'lcfs':
      return jump + seconds
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
  readonly #lanes = new Map<string, Placed[]>()
  readonly #tenants = new Map<string, Tenant>()
  #order = 0

  constructor(policyClass: PolicyClass) {
    this.policyClass = policyClass
  }

  add(entry: QueueEntry): void {
    const placed = { entry, score: queueScore(this.policyClass, entry), order: this.#order++ }
    const key = laneKey(entry)
    const lane = this.#lanes.get(key)
    if (lane === undefined) this.#lanes.set(key, [placed])
    else lane.splice(placeIn(lane, placed), 0, placed)
    this.#tenantOf(entry).waiting++
    this.requests++
    this.promptTokens += entry.promptTokens
    this.cachedTokens += entry.cachedTokens
  }

  /** The next one that can go, or null. */
  head(): QueueEntry | null {
    let best: Placed | null = null
    for (const lane of this.#lanes.values()) {
      const first = lane[0]
      if (first === undefined || (best !== null && !this.#goesBefore(first, best))) continue
      if (first.entry.canGo()) best = first
    }
    return best?.entry ?? null
  }

  /** Takes an entry out, because it goes (`served`) or because it no longer waits. */
  remove(entry: QueueEntry, served: boolean): boolean {
    const key = laneKey(entry)
    const lane = this.#lanes.get(key)
    const at = lane?.findIndex((placed) => placed.entry === entry) ?? -1
    if (lane === undefined || at === -1) return false
    lane.splice(at, 1)
    if (lane.length === 0) this.#lanes.delete(key)
    const tenant = this.#tenantOf(entry)
    tenant.waiting--
    if (served) tenant.served += entry.cost
    if (tenant.waiting === 0 && this.#tenants.size > MAX_IDLE_TENANTS) {
      this.#tenants.delete(entry.tenant)
    }
    this.requests--
    this.promptTokens -= entry.promptTokens
    this.cachedTokens -= entry.cachedTokens
    if (this.requests === 0) {
      this.deficit = 0
      this.#tenants.clear()
    }
    return true
  }

  entries(): QueueEntry[] {
    return [...this.#lanes.values()].flatMap((lane) => lane.map(({ entry }) => entry))
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

  /** A tenant that comes back starts level with the least served one: absence earns nothing. */
  #tenantOf(entry: QueueEntry): Tenant {
    const known = this.#tenants.get(entry.tenant)
    if (known !== undefined && (known.waiting > 0 || this.requests === 0)) return known
    const others = [...this.#tenants.values()].filter(({ waiting }) => waiting > 0)
    const least = others.reduce((min, { served }) => Math.min(min, served), Infinity)
    const level = Number.isFinite(least) ? least : 0
    const tenant = known ?? { served: level, waiting: 0 }
    tenant.served = Math.max(tenant.served, level)
    this.#tenants.set(entry.tenant, tenant)
    return tenant
  }
}

const MAX_IDLE_TENANTS = 1024

const laneKey = (entry: QueueEntry): string => `${entry.pinned}\n${entry.tenant}`

function goesFirst(a: Placed, b: Placed): boolean {
  if (a.entry.strictPriority !== b.entry.strictPriority) {
    return a.entry.strictPriority > b.entry.strictPriority
  }
  if (a.score !== b.score) return a.score > b.score
  return a.order < b.order
}

/** Where a new entry goes in a lane that is in order. */
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
