/**
 * The decisions of one pool of workers: who is there, what they hold, what they carry, and who gets the next request.
 *
 * Owns: the pool's state, kept as it changes. `select` decides and changes nothing but the round-robin cursor, `book`
 * puts a selection on the books, the booking is freed exactly once. Pure: the clock and randomness are arguments.
 */
import type { Clock, Random, WorkerId } from '../base/index.ts'
import type { KvEventBatch, LoadReport } from '../kv/index.ts'
import type { WorkerCard } from '../request/index.ts'
import { ActiveSequences } from './active-sequences.ts'
import type { Booking } from './active-sequences.ts'
import { hasBusyThresholds, mergeBusyThresholds } from './busy-threshold.ts'
import type { BusyThresholds } from './busy-threshold.ts'
import { DecisionRing } from './decision-record.ts'
import type { FleetObserver } from './fleet-observer.ts'
import { OverlapIndex } from './overlap-index.ts'
import { PromptHasher } from './prompt-hasher.ts'
import { RankTable } from './rank-table.ts'
import type { RouterConfig } from './router-config.ts'
import type { PoolStatus } from './router-status.ts'
import { eventFacts, isSilent } from './self-check.ts'
import type { Refusal, Selection, SelectionQuery } from './selection.ts'
import { Selector } from './selector.ts'

export interface KvRouterOptions {
  readonly config: RouterConfig
  readonly clock: Clock
  readonly random: Random
  /** Shared between pools, so that a prompt is hashed once. */
  readonly hasher?: PromptHasher
  /** Shared between pools, so that a request's decisions are found together. */
  readonly ring?: DecisionRing
}

export class KvRouter implements FleetObserver {
  readonly config: RouterConfig
  readonly #clock: Clock
  readonly #table = new RankTable()
  readonly #sequences: ActiveSequences
  readonly #index: OverlapIndex
  readonly #selector: Selector
  readonly #ring: DecisionRing
  readonly #freed: (() => void)[] = []
  #busy: BusyThresholds
  #blockSize: number
  #decisions = 0
  #refusals = 0
  #eventGaps = 0
  #eventErrors = 0
  #version = 0

  constructor(options: KvRouterOptions) {
    const { config, clock, random } = options
    this.config = config
    this.#clock = clock
    this.#busy = config.busy
    this.#blockSize = config.blockSize
    this.#ring = options.ring ?? new DecisionRing(config.explainRecords)
    this.#sequences = new ActiveSequences(
      this.#table,
      () => this.#blockSize,
      (slot) => this.#judge(slot),
    )
    this.#index = new OverlapIndex({
      approximateTtlMs: 1000 * config.approximateTtlSeconds,
      predictedTtlMs: 1000 * config.predictedTtlSeconds,
      maxBlocks: config.maxIndexBlocks,
    })
    this.#selector = new Selector({
      config,
      clock,
      random,
      table: this.#table,
      sequences: this.#sequences,
      index: this.#index,
      hasher: options.hasher ?? new PromptHasher(),
      blockSize: () => this.#blockSize,
      busy: () => this.#busy,
    })
  }

  // The fleet

  workerJoined(card: WorkerCard): void {
    if (this.#table.workerCount === 0) {
      this.#blockSize = card.engine.kvCacheBlockSize ?? this.config.blockSize
    }
    for (const slot of this.#table.join(card)) this.#dropSlot(slot)
    this.#changed()
  }

  workerLeft(workerId: WorkerId, _reason: string): void {
    for (const slot of this.#table.leave(workerId)) this.#dropSlot(slot)
    this.#changed()
  }

  kvEvents(workerId: WorkerId, batch: KvEventBatch): void {
    const slot = this.#table.slotOf(workerId, batch.dpRank)
    if (slot === -1 || !this.config.useKvEvents) return
    const row = this.#table.row(slot)
    if (row.lastSequence !== null && batch.sequence > row.lastSequence + 1) this.#eventGaps++
    row.lastSequence = batch.sequence
    if (row.kvEventsSeen === 0 && batch.events.length > 0) this.#index.hasBegunEvents(slot)
    row.kvEventsSeen += batch.events.length
    this.#eventErrors += this.#index.apply(slot, batch.events)
  }

  load(workerId: WorkerId, report: LoadReport): void {
    const slot = this.#table.slotOf(workerId, report.dpRank)
    if (slot === -1) return
    this.#table.report(slot, report)
    this.#judge(slot)
  }

  // Decisions

  select(query: SelectionQuery): Selection | Refusal {
    const answer = this.#selector.select(query)
    this.#ring.add(answer.record)
    if (answer.kind === 'selected') this.#decisions++
    else this.#refusals++
    return answer
  }

  /** A decision that leaves no trace: no record, no cursor, no booking. */
  peek(query: SelectionQuery): Selection | Refusal {
    return this.#selector.select(query, true)
  }

  /** Slots that the request could go to now. */
  eligible(query: SelectionQuery): readonly number[] {
    return this.#selector.eligible(query)
  }

  /** The most prompt tokens that any rank holds for the request. */
  bestCachedTokens(query: SelectionQuery): number {
    return this.#selector.bestCachedTokens(query)
  }

  book(selection: Selection): Booking {
    const nowMs = this.#clock.nowMs()
    const { slot, hashes, promptTokens } = selection
    const isTracked = this.config.trackActiveBlocks && hashes !== null
    const byHash = isTracked && selection.assumeKvReuse
    const speed = this.config.prefillTokensPerSecond
    const tokens = selection.trackPrefill ? selection.effectivePrefillTokens : null
    const booking = this.#sequences.add(
      {
        slot,
        hashes: byHash ? hashes.sequence : null,
        privateBlocks: isTracked && !byHash ? hashes.sequence.length / 2 : 0,
        promptTokens,
        prefillTokens: tokens,
        prefillDurationMs: speed === null || tokens === null ? null : (1000 * tokens) / speed,
        expectedOutputTokens: selection.expectedOutputTokens,
      },
      nowMs,
    )
    // What decode takes over it holds as well; only conditional disaggregation asks for that.
    if (hashes !== null && (selection.phase !== 'decode' || this.config.conditional.enabled)) {
      const row = this.#table.row(slot)
      const hasEvents = this.config.useKvEvents && !isSilent(row)
      const capacity = (this.#table.totalBlocks[slot] as number) || null
      this.#index.routed({ slot, hasEvents, capacity }, hashes, nowMs)
      if (hashes.sequence.length > 0) row.promptsPlaced++
    }
    this.#judge(slot)
    this.#version++
    return booking
  }

  prefillDone(booking: Booking): void {
    if (!this.#sequences.prefillDone(booking, this.#clock.nowMs())) return
    this.#judge(booking.slot)
    this.#changed()
  }

  /** So many more tokens of output. Returns after how many further ones it has to hear again. */
  output(booking: Booking, tokens: number): number {
    return this.config.trackOutputBlocks ? this.#sequences.addOutput(booking, tokens) : Infinity
  }

  /** What `output` does by itself when a block begins. */
  addOutputBlock(booking: Booking, decayFraction?: number): void {
    this.#sequences.addOutputBlock(booking, decayFraction)
  }

  /** Idempotent. */
  free(booking: Booking): void {
    if (!this.#sequences.free(booking, this.#clock.nowMs())) return
    this.#judge(booking.slot)
    this.#changed()
  }

  /** The worker did not answer: leave it out until it is heard of, or for so long. */
  fence(workerId: WorkerId, forMs: number): void {
    const untilMs = this.#clock.nowMs() + forMs
    for (const slot of this.#table.slotsOf(workerId)) this.#table.fence(slot, untilMs)
  }

  // What others read

  /** Called whenever load went down or the fleet changed: a queue may go on. */
  onRoom(listener: () => void): void {
    this.#freed.push(listener)
  }

  /** Another number whenever load or fleet have changed. */
  get version(): number {
    return this.#version
  }

  get workerCount(): number {
    return this.#table.workerCount
  }

  get decodeModeCount(): number {
    return this.#table.decodeModeCount
  }

  get blockSize(): number {
    return this.#blockSize
  }

  get busy(): BusyThresholds {
    return this.#busy
  }

  setBusy(update: BusyThresholds): BusyThresholds {
    this.#busy = mergeBusyThresholds(this.#busy, update)
    for (const slot of this.#table.live) this.#judge(slot)
    this.#changed()
    return this.#busy
  }

  cardOf(workerId: WorkerId): WorkerCard | null {
    return this.#table.cardOf(workerId)
  }

  /** Booked load of one rank, up to date with the clock. */
  loadOf(slot: number): {
    prefillTokens: number
    maxBatchedTokens: number
    totalBlocks: number
    requests: number
  } {
    this.#sequences.refresh(this.#clock.nowMs())
    const table = this.#table
    return {
      prefillTokens: table.activePrefillTokens[slot] as number,
      maxBatchedTokens: table.maxBatchedTokens[slot] as number,
      totalBlocks: table.totalBlocks[slot] as number,
      requests: table.activeRequests[slot] as number,
    }
  }

  status(queue = { requests: 0, promptTokens: 0 }): PoolStatus {
    this.#sequences.refresh(this.#clock.nowMs())
    const ranks = this.#table.live.map((slot) => this.#table.statusOf(slot))
    const events = eventFacts(ranks, (workerId) => this.cardOf(workerId))
    return {
      mode: this.config.mode,
      blockSize: this.#blockSize,
      workers: this.#table.workerCount,
      ranks,
      queuedRequests: queue.requests,
      queuedPromptTokens: queue.promptTokens,
      activeRequests: ranks.reduce((sum, rank) => sum + rank.activeRequests, 0),
      decisions: this.#decisions,
      refusals: this.#refusals,
      usesKvEvents: this.config.useKvEvents,
      ...events,
      kvEventGaps: this.#eventGaps,
      kvEventErrors: this.#eventErrors,
      busy: this.#busy,
    }
  }

  #dropSlot(slot: number): void {
    this.#sequences.dropSlot(slot, this.#clock.nowMs())
    this.#index.removeSlot(slot)
    this.#table.release(slot)
  }

  #judge(slot: number): void {
    if (!hasBusyThresholds(this.#busy) && this.#table.overloaded[slot] === 0) return
    const tokens = this.#table.activePrefillTokens[slot] as number
    this.#table.judgeOverload(slot, this.#busy, tokens)
  }

  #changed(): void {
    this.#version++
    for (const listener of this.#freed) listener()
  }
}
