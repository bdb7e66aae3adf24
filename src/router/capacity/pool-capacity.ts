/**
 * How many more requests a pool of workers takes: which ranks are full, how many places are free, how many requests
 * are queued inside the workers or for them. Listeners are called when the pool may take more than before.
 */
import type { WorkerId } from '../../base/index.ts'
import type { BusyThresholds } from '../configuration/busy-threshold.ts'
import type { RankGroup } from '../ranks/rank-group.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import { LegsUnderWay } from './legs-under-way.ts'
import { RankJudge } from './rank-judge.ts'

interface PoolCapacityOptions {
  readonly table: RankTable
  readonly busy: BusyThresholds
  /** Null: no limit for requests queued inside a worker. */
  readonly engineQueue: number | null
}

export interface GroupWaiting {
  readonly ranks: RankGroup
  readonly requests: number
}

export class PoolCapacity {
  readonly #table: RankTable
  readonly #listeners: (() => void)[] = []
  /** Decides which ranks take no more requests. */
  readonly judge: RankJudge
  /** Prefills that a decode leg follows. */
  readonly underWay = new LegsUnderWay()
  /** Number of requests queued for this pool, and for each group of ranks; set by the owner of the queue. */
  waitingOutside: () => number = () => 0
  waitingByGroup: () => readonly GroupWaiting[] = () => []
  /** Requests that have ended and whose prompts a prefill worker had computed. */
  handedOverEnded = 0
  #version = 0
  #ended = 0

  constructor({ table, busy, engineQueue }: PoolCapacityOptions) {
    this.#table = table
    this.judge = new RankJudge({ table, busy, engineQueue, onChanged: () => this.grew() })
  }

  /** Registers a listener for falling load and fleet changes, so that queued requests can be tried again. */
  onGrowth(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** The pool may take more: load has fallen, or workers have joined or left. */
  grew(): void {
    this.#version++
    for (const listener of this.#listeners) listener()
  }

  /** Decisions may differ, but the pool takes no more than before: a request was sent, or a prompt became known. */
  changed(): void {
    this.#version++
  }

  /** A request of the pool has ended; `grew` must follow. */
  ended(wasHandedOver: boolean): void {
    this.#ended++
    if (wasHandedOver) this.handedOverEnded++
  }

  /** A counter that changes with every change of load or fleet. */
  get version(): number {
    return this.#version
  }

  /** Requests that were sent and have ended, successfully or not. */
  get endedCount(): number {
    return this.#ended
  }

  get rankCount(): number {
    return this.#table.live.length
  }

  /** Number of ranks that take no more requests for now. */
  get fullCount(): number {
    return this.#table.fullCount
  }

  isFull(slot: number): boolean {
    return this.#table.full[slot] === 1
  }

  hasRoom(workerId: WorkerId): boolean {
    return this.#table.slotsOf(workerId).some((slot) => !this.isFull(slot))
  }

  /** False: the rank has left. */
  isInUse(slot: number): boolean {
    return this.#table.isInUse(slot)
  }

  /** How many more requests a rank takes; Infinity if it has no limit that is known. */
  freePlacesAt(slot: number): number {
    if (this.judge.engineQueue === Infinity) return Infinity
    if (this.isFull(slot)) return 0
    if (this.#table.takesProbeOnly(slot)) return 1
    const places = this.#table.maxSequences[slot] as number
    if (places > 0) {
      return Math.max(0, places + this.judge.engineQueue - this.#table.requestsOf(slot))
    }
    const { openMax, openRequests } = this.#table
    return Math.max(0, (openMax[slot] as number) - (openRequests[slot] as number))
  }

  /** Requests of other routers inside the workers, of all ranks or of these. */
  othersInside(slots: readonly number[] = this.#table.live): number {
    const { activeRequests, sentSinceReport, reportedRequests } = this.#table
    let others = 0
    for (const slot of slots) {
      const reportedOwn = (activeRequests[slot] as number) - (sentSinceReport[slot] as number)
      others += Math.max(0, (reportedRequests[slot] as number) - reportedOwn)
    }
    return others
  }

  /** Requests of this router inside the workers. */
  get sentInside(): number {
    let sent = 0
    for (const slot of this.#table.live) sent += this.#table.activeRequests[slot] as number
    return sent
  }

  /** True if this router, one of so many, has its share of the requests inside the workers. */
  hasShareInside(routers: number): boolean {
    const { sentInside } = this
    return routers * sentInside >= sentInside + this.othersInside()
  }

  /** Requests of this router that are queued inside the workers. */
  get waitingInside(): number {
    const { live, activeRequests, reportedRequests, openWaiting } = this.#table
    let waiting = 0
    for (const slot of live) {
      const queued = this.#table.row(slot).reportedQueued
      if (queued === 0) {
        waiting += openWaiting[slot] as number
        continue
      }
      const all = Math.max(reportedRequests[slot] as number, 1)
      waiting += queued * Math.min((activeRequests[slot] as number) / all, 1)
    }
    return Math.round(waiting)
  }
}
