/**
 * The ranks of one pool. A rank is one data-parallel rank of one worker; its slot is its index in every column
 * (`rank-columns.ts`).
 *
 *            slot   0          1          2          3
 *   card, dpRank    w1/0       w1/1       w2/0       (free, to be reused)
 *   activeRequests  3          0          7          -
 *   full            0          0          1          -
 *
 * Owns cards, capacity, booked and reported load, fences. Slots of workers that left are reused.
 */
import type { WorkerId } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import {
  decodeLatch,
  DEFAULT_MAX_BATCHED_TOKENS,
  isPrefillOverloaded,
  overloadOf,
} from '../configuration/busy-threshold.ts'
import type { BusyThresholds, Overload } from '../configuration/busy-threshold.ts'
import { isRankFull } from './rank-capacity.ts'
import { RankColumns } from './rank-columns.ts'
import type { EngineQueueBound } from './rank-capacity.ts'
import type { IgnoredReport, RankStatus } from './router-status.ts'
import { NO_WISH } from './snapshot-wish.ts'
import type { SnapshotWish } from './snapshot-wish.ts'
import { topologyTaints } from '../configuration/topology.ts'

export interface RankRow extends SnapshotWish {
  card: WorkerCard
  dpRank: number
  taints: ReadonlySet<string>
  reportedBlocks: number | null
  /** Requests queued inside the worker, as it reports. */
  reportedQueued: number
  /** When the last report came. */
  reportedMs: number | null
  /** What it said, while it is ignored; see `old-reports.ts`. */
  ignoredReport: IgnoredReport | null
  /** While it is ignored: a request sent since has its first token. */
  hasAnswered: boolean
  kvEventsSeen: number
  /** Prompts sent to the rank that complete a block; sooner or later each should lead to KV events. */
  promptsPlaced: number
  lastSequence: number | null
}

/** Load of the requests that were sent to one rank and have not ended. */
export interface BookedLoad {
  readonly prefillTokens: number
  readonly maxBatchedTokens: number
  readonly totalBlocks: number
  readonly requests: number
}

const NOBODY: ReadonlySet<WorkerId> = new Set()

export class RankTable extends RankColumns {
  /** Slots in use, unordered; a decision iterates over it. */
  readonly live: number[] = []
  readonly #rows: (RankRow | undefined)[] = []
  readonly #slotsOf = new Map<WorkerId, readonly number[]>()
  readonly #free: number[] = []
  /** LoRA adapter → workers that have it. */
  readonly #adapters = new Map<string, Set<WorkerId>>()
  #decodeModeCount = 0
  #overloadedCount = 0
  #fenced = 0
  #fullCount = 0

  get workerCount(): number {
    return this.#slotsOf.size
  }

  /** Number of workers in mode `decode`; 0 in a purely aggregated pool. */
  get decodeModeCount(): number {
    return this.#decodeModeCount
  }

  /** True if some rank may be overloaded, fenced or full, so that a decision has to check. */
  get hasExclusions(): boolean {
    return this.#overloadedCount > 0 || this.#fenced > 0 || this.#fullCount > 0
  }

  get fullCount(): number {
    return this.#fullCount
  }

  bookedLoad(slot: number): BookedLoad {
    return {
      prefillTokens: this.activePrefillTokens[slot] as number,
      maxBatchedTokens: this.maxBatchedTokens[slot] as number,
      totalBlocks: this.totalBlocks[slot] as number,
      requests: this.activeRequests[slot] as number,
    }
  }

  slotsOf(workerId: WorkerId): readonly number[] {
    return this.#slotsOf.get(workerId) ?? []
  }

  slotOf(workerId: WorkerId, dpRank: number): number {
    for (const slot of this.slotsOf(workerId)) if (this.#rows[slot]?.dpRank === dpRank) return slot
    return -1
  }

  workersWith(adapter: string): ReadonlySet<WorkerId> {
    return this.#adapters.get(adapter) ?? NOBODY
  }

  isInUse(slot: number): boolean {
    return this.#rows[slot] !== undefined
  }

  row(slot: number): RankRow {
    const row = this.#rows[slot]
    if (row === undefined) throw new Error(`broken invariant: slot ${slot} is not in use`)
    return row
  }

  cardOf(workerId: WorkerId): WorkerCard | null {
    const slot = this.slotsOf(workerId)[0]
    return slot === undefined ? null : this.row(slot).card
  }

  /**
   * Adds the ranks of a new worker, or the changed card of a known one. Returns the slots of ranks that no longer
   * exist.
   */
  join(card: WorkerCard): readonly number[] {
    const before = this.slotsOf(card.workerId)
    const start = card.engine.dataParallelStartRank ?? 0
    const size = Math.max(card.engine.dataParallelSize ?? 1, 1)
    const taints = new Set([...(card.taints ?? []), ...topologyTaints(card)])
    if (before.length > 0) this.#decodeModeCount -= this.#isDecode(before) ? 1 : 0
    const gone = before.filter((slot) => {
      const { dpRank } = this.row(slot)
      return dpRank < start || dpRank >= start + size
    })
    const slots: number[] = []
    for (let dpRank = start; dpRank < start + size; dpRank++) {
      const known = before.find((slot) => this.row(slot).dpRank === dpRank)
      const slot = known ?? this.#take()
      const row = known === undefined ? newRow(card, dpRank, taints) : this.row(known)
      row.card = card
      row.taints = taints
      this.#rows[slot] = row
      this.maxBatchedTokens[slot] = card.engine.maxNumBatchedTokens ?? DEFAULT_MAX_BATCHED_TOKENS
      this.totalBlocks[slot] = card.engine.totalKvBlocks ?? 0
      this.maxSequences[slot] = card.engine.maxNumSeqs ?? 0
      this.unfence(slot)
      slots.push(slot)
    }
    this.#slotsOf.set(card.workerId, slots)
    this.#forgetAdapters(card.workerId)
    for (const adapter of card.engine.loraAdapters ?? []) {
      const workers = this.#adapters.get(adapter)
      if (workers === undefined) this.#adapters.set(adapter, new Set([card.workerId]))
      else workers.add(card.workerId)
    }
    if (card.mode === 'decode') this.#decodeModeCount++
    return gone
  }

  /** Removes the worker; call `release` for its slots when nothing refers to them any more. */
  leave(workerId: WorkerId): readonly number[] {
    const slots = this.slotsOf(workerId)
    if (this.#isDecode(slots)) this.#decodeModeCount--
    this.#slotsOf.delete(workerId)
    this.#forgetAdapters(workerId)
    return slots
  }

  #forgetAdapters(workerId: WorkerId): void {
    for (const [adapter, workers] of this.#adapters) {
      if (workers.delete(workerId) && workers.size === 0) this.#adapters.delete(adapter)
    }
  }

  release(slot: number): void {
    this.unfence(slot)
    this.#setOverloaded(slot, false)
    this.setFull(slot, false)
    this.#rows[slot] = undefined
    this.live.splice(this.live.indexOf(slot), 1)
    this.#free.push(slot)
  }

  report(slot: number, report: LoadReport, nowMs: number): void {
    const row = this.row(slot)
    row.reportedMs = nowMs
    row.ignoredReport = null
    row.reportedBlocks = report.activeBlocks
    row.reportedQueued = report.queuedRequests
    this.reportedRequests[slot] = report.runningRequests + report.queuedRequests
    this.reportedPrefillTokens[slot] = report.prefillTokensInFlight
    this.reportedDecodeBlocks[slot] = report.activeBlocks
    this.sentSinceReport[slot] = 0
    if (report.totalBlocks > 0) this.totalBlocks[slot] = report.totalBlocks
    this.unfence(slot)
  }

  /** From now on, until its next report, the rank counts as if it had reported nothing. */
  ignoreReport(slot: number): void {
    const row = this.row(slot)
    row.ignoredReport = {
      requests: this.reportedRequests[slot] as number,
      queued: row.reportedQueued,
      blocks: row.reportedBlocks ?? 0,
    }
    row.hasAnswered = false
    row.reportedBlocks = null
    row.reportedQueued = 0
    this.reportedRequests[slot] = 0
    this.reportedPrefillTokens[slot] = 0
    this.reportedDecodeBlocks[slot] = 0
  }

  /** Its report is ignored, and no request has been answered since. */
  takesProbeOnly(slot: number): boolean {
    const { ignoredReport, hasAnswered } = this.row(slot)
    return ignoredReport !== null && !hasAnswered
  }

  /** A request on the rank has its first token. Returns whether the rank may take more because of that. */
  answered(slot: number): boolean {
    const row = this.row(slot)
    if (row.ignoredReport === null || row.hasAnswered) return false
    row.hasAnswered = true
    return true
  }

  /** The threshold that the rank exceeds, or null. */
  overloadOf(slot: number, thresholds: BusyThresholds): Overload | null {
    return overloadOf(thresholds, {
      prefillTokens: this.activePrefillTokens[slot] as number,
      maxBatchedTokens: this.maxBatchedTokens[slot] as number,
      bookedBlocks: Math.round(this.activeDecodeBlocks[slot] as number),
      reportedBlocks: this.row(slot).reportedBlocks ?? 0,
      totalBlocks: this.totalBlocks[slot] as number,
    })
  }

  /** Updates the overload mark of one rank after its load changed. */
  judgeOverload(slot: number, thresholds: BusyThresholds, prefillTokens: number): void {
    const decode = decodeLatch(thresholds, this.overloaded[slot] === 1, {
      bookedBlocks: this.activeDecodeBlocks[slot] as number,
      reportedBlocks: this.row(slot).reportedBlocks ?? 0,
      totalBlocks: this.totalBlocks[slot] as number,
    })
    const batched = this.maxBatchedTokens[slot] as number
    this.#setOverloaded(slot, decode || isPrefillOverloaded(thresholds, prefillTokens, batched))
  }

  /** Updates the `full` mark of one rank. */
  judgeCapacity(slot: number, bound: EngineQueueBound): void {
    const { card, reportedQueued } = this.row(slot)
    const isFull = isRankFull(bound, {
      requests: this.activeRequests[slot] as number,
      reportedRequests: this.reportedRequests[slot] as number,
      reportedQueued,
      takesProbeOnly: this.takesProbeOnly(slot),
      sentSinceReport: this.sentSinceReport[slot] as number,
      maxSequences: card.engine.maxNumSeqs ?? null,
      openRequests: this.openRequests[slot] as number,
      openMax: this.openMax[slot] as number,
      openPrefills: this.openPrefills[slot] as number,
      prefillTokens: this.activePrefillTokens[slot] as number,
      maxBatchedTokens: card.engine.maxNumBatchedTokens ?? null,
    })
    this.setFull(slot, isFull)
  }

  /** The larger of booked and reported requests, since there may be other routers. */
  requestsOf(slot: number): number {
    const known = (this.activeRequests[slot] as number) + (this.peerRequests[slot] as number)
    return Math.max(known, this.reportedRequests[slot] as number)
  }

  /** KV blocks that are neither booked nor reported as used; Infinity if the rank does not report its total. */
  freeBlocksOf(slot: number): number {
    const total = this.totalBlocks[slot] as number
    if (total === 0) return Infinity
    const booked = Math.round(this.activeDecodeBlocks[slot] as number)
    return total - Math.max(booked, this.reportedDecodeBlocks[slot] as number)
  }

  /** Requests beyond the maximum batch size if one more arrives; below 1: there is a place. */
  excessOf(slot: number): number {
    const places = this.maxSequences[slot] as number
    return places === 0 ? -Infinity : this.requestsOf(slot) + 1 - places
  }

  setFull(slot: number, isFull: boolean): void {
    const now = isFull ? 1 : 0
    this.#fullCount += now - (this.full[slot] as number)
    this.full[slot] = now
  }

  /** Excludes the rank until then, or until the worker's next report. */
  fence(slot: number, untilMs: number): void {
    if (this.fencedUntilMs[slot] === 0) this.#fenced++
    this.fencedUntilMs[slot] = untilMs
  }

  unfence(slot: number): void {
    if (this.fencedUntilMs[slot] === 0) return
    this.fencedUntilMs[slot] = 0
    this.#fenced--
  }

  statusOf(slot: number): RankStatus {
    const row = this.row(slot)
    return {
      workerId: row.card.workerId,
      dpRank: row.dpRank,
      activePrefillTokens: this.activePrefillTokens[slot] as number,
      activeDecodeBlocks: Math.round(this.activeDecodeBlocks[slot] as number),
      activeRequests: this.activeRequests[slot] as number,
      peerRequests: this.peerRequests[slot] as number,
      reportedBlocks: row.reportedBlocks,
      reportedRequests: this.reportedRequests[slot] as number,
      reportedQueued: row.reportedQueued,
      ignoredReport: row.ignoredReport,
      full: this.full[slot] === 1,
      totalBlocks: (this.totalBlocks[slot] as number) || null,
      overloaded: this.overloaded[slot] === 1,
      kvEventsSeen: row.kvEventsSeen,
      promptsPlaced: row.promptsPlaced,
    }
  }

  #isDecode(slots: readonly number[]): boolean {
    return slots[0] !== undefined && this.row(slots[0]).card.mode === 'decode'
  }

  #setOverloaded(slot: number, overloaded: boolean): void {
    const now = overloaded ? 1 : 0
    this.#overloadedCount += now - (this.overloaded[slot] as number)
    this.overloaded[slot] = now
  }

  #take(): number {
    const slot = this.#free.pop() ?? this.#rows.length
    if (slot >= this.capacity) this.grow()
    this.clear(slot)
    this.#rows[slot] = undefined
    this.live.push(slot)
    return slot
  }
}

function newRow(card: WorkerCard, dpRank: number, taints: ReadonlySet<string>): RankRow {
  return {
    card,
    dpRank,
    taints,
    reportedBlocks: null,
    reportedQueued: 0,
    reportedMs: null,
    ignoredReport: null,
    hasAnswered: false,
    kvEventsSeen: 0,
    promptsPlaced: 0,
    lastSequence: null,
    ...NO_WISH,
  }
}
