/**
 * Marks the ranks that take no more requests: those with a full engine queue and those above the busy thresholds. The
 * marks are columns of the rank table, so that a decision only reads them.
 */
import { hasBusyThresholds, mergeBusyThresholds } from '../configuration/busy-threshold.ts'
import type { BusyThresholds } from '../configuration/busy-threshold.ts'
import type { EngineQueueBound } from '../ranks/rank-capacity.ts'
import type { RankTable } from '../ranks/rank-table.ts'

interface RankJudgeOptions {
  readonly table: RankTable
  readonly busy: BusyThresholds
  /** Null: no limit for requests queued inside a worker. */
  readonly engineQueue: number | null
  /** Called when ranks may take more than before. */
  readonly onChanged: () => void
}

export interface QueueDemand {
  /** Requests that may be queued inside each worker for now; null: as configured. */
  readonly queueMax: number | null
  /** Requests wait, and may exceed the limit on ranks where others have more than their share. */
  readonly hasWaited: boolean
  /** Number of routers that send to the workers; at least 2, as one may not be known. */
  readonly routers: number
}

const NO_DEMAND: QueueDemand = { queueMax: null, hasWaited: false, routers: 2 }

export class RankJudge {
  readonly #options: RankJudgeOptions
  #busy: BusyThresholds
  #bound: EngineQueueBound | null
  #own = NO_DEMAND
  #ahead = NO_DEMAND

  constructor(options: RankJudgeOptions) {
    const { busy, engineQueue } = options
    this.#options = options
    this.#busy = busy
    this.#bound = engineQueue === null ? null : { requests: engineQueue, advantage: 0, routers: 2 }
  }

  get busy(): BusyThresholds {
    return this.#busy
  }

  judge(slot: number): void {
    const { table } = this.#options
    if (this.#bound !== null) table.judgeCapacity(slot, this.#bound)
    if (!hasBusyThresholds(this.#busy) && table.overloaded[slot] === 0) return
    const tokens = table.activePrefillTokens[slot] as number
    table.judgeOverload(slot, this.#busy, tokens)
  }

  setBusy(update: BusyThresholds): BusyThresholds {
    this.#busy = mergeBusyThresholds(this.#busy, update)
    this.#judgeAll()
    return this.#busy
  }

  /** How many requests may be queued inside a worker now; Infinity: no limit. */
  get engineQueue(): number {
    return this.#bound?.requests ?? Infinity
  }

  /**
   * The demand of this router's requests, or, with `isAhead`, of those that are still queued for the previous leg: both
   * limit the requests queued inside each worker, and if either waits, ranks where others have most places may be filled
   * further.
   */
  setDemand(demand: QueueDemand, isAhead = false): void {
    const { engineQueue } = this.#options
    if (engineQueue === null) return
    if (isAhead) this.#ahead = demand
    else this.#own = demand
    const [own, ahead] = [this.#own, this.#ahead]
    const bound = {
      requests: Math.min(engineQueue, own.queueMax ?? Infinity, ahead.queueMax ?? Infinity),
      advantage: own.hasWaited || ahead.hasWaited ? engineQueue : 0,
      routers: Math.max(own.routers, ahead.routers),
    }
    if (this.#bound !== null && isSame(this.#bound, bound)) return
    this.#bound = bound
    this.#judgeAll()
  }

  #judgeAll(): void {
    const { table, onChanged } = this.#options
    for (const slot of table.live) this.judge(slot)
    onChanged()
  }
}

function isSame(a: EngineQueueBound, b: EngineQueueBound): boolean {
  return a.requests === b.requests && a.advantage === b.advantage && a.routers === b.routers
}
