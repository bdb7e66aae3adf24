/**
 * The routing state and decisions of one pool of workers: its members, their cached blocks and load, the choice of
 * ranks. `select` decides and records the decision; it changes no load, and `peek` leaves no trace at all. `book` records
 * the choice as load; a booking is freed exactly once. Pure: clock and randomness are arguments.
 */
import type { BatonError, Clock, Random, WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type { Phase, RoutingHints, WorkerCard } from '../../request/index.ts'
import { ActiveSequences } from '../load/active-sequences.ts'
import type { Booking } from '../load/active-sequences.ts'
import { PoolCapacity } from '../capacity/pool-capacity.ts'
import { Bookings } from './bookings.ts'
import { DecisionRing } from './decision-record.ts'
import type { OnwardRoom } from './decision-scope.ts'
import { GoalGate } from './goal-gate.ts'
import { BlockUnit } from '../load/block-unit.ts'
import { EventIntake } from '../load/event-intake.ts'
import type { FleetObserver } from '../load/fleet-observer.ts'
import { OldReports } from '../load/old-reports.ts'
import { OverlapIndex } from '../load/overlap-index.ts'
import { PriceRows } from '../load/price-rows.ts'
import { PromptHasher } from '../load/prompt-hasher.ts'
import { RankBacklog } from '../load/rank-backlog.ts'
import { RankForecast } from '../load/rank-forecast.ts'
import type { ToldPrompt } from '../load/peer-requests.ts'
import { PeerRequests } from '../load/peer-requests.ts'
import { LaterTurns } from '../load/later-turns.ts'
import { RankRates } from '../load/rank-rates.ts'
import { RankTable } from '../ranks/rank-table.ts'
import type { BookedLoad } from '../ranks/rank-table.ts'
import { TransferRates } from '../load/transfer-rates.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { PoolStatus } from '../ranks/router-status.ts'
import { AnswerCheck } from '../ranks/answer-check.ts'
import { pinnedSlot, pinOf } from './pin.ts'
import { PlaceForecasts } from './place-forecast.ts'
import { poolStatus } from '../load/pool-status.ts'
import { PromptBeliefs } from './prompt-beliefs.ts'
import type { Refusal, Selection, SelectionQuery } from './selection.ts'
import { Selector } from './selector.ts'

export interface KvRouterOptions {
  readonly config: RouterConfig
  readonly clock: Clock
  readonly random: Random
  /** Shared between pools, so that each prompt is hashed only once. */
  readonly hasher?: PromptHasher
  /** Shared between pools, so that all decisions of a request are found together. */
  readonly ring?: DecisionRing
  /** Called when a prompt is sent to a rank without KV events, so that other frontends can be told. */
  readonly onRouted?: (to: Selection, sequence: Uint32Array) => void
  /** With `cost: time`: called when a request is sent to a rank, when it runs and when it ends, to tell other frontends. */
  readonly onPrompt?: (news: ToldPrompt) => void
}

export class KvRouter implements FleetObserver {
  readonly config: RouterConfig
  readonly #clock: Clock
  readonly #table = new RankTable()
  readonly #rates = new RankRates()
  readonly #backlog = new RankBacklog()
  readonly #rows = new PriceRows(this.#table, this.#rates, this.#backlog)
  readonly #turns = new LaterTurns()
  readonly #forecast: RankForecast
  readonly #sequences: ActiveSequences
  readonly #oldReports: OldReports
  readonly #index: OverlapIndex
  readonly #selector: Selector
  readonly #ring: DecisionRing
  readonly #beliefs: PromptBeliefs
  readonly #bookings: Bookings
  /** How many more requests the pool takes. */
  readonly capacity: PoolCapacity
  readonly #blocks: BlockUnit
  readonly #events: EventIntake
  /** The pool of the following leg; set by the owner of the queue. */
  onward: OnwardRoom | null = null
  /** Changes when a worker joins, leaves or announces another card. */
  fleetVersion = 0
  #decisions = 0
  #refusals = 0
  readonly answers = new AnswerCheck()
  readonly forecasts: PlaceForecasts
  /** Requests that other frontends have sent. */
  readonly peers: PeerRequests
  /** KV transfer times from the workers of the prefill pool to those of this pool. */
  readonly transfers = new TransferRates()
  /** Handling of requests with latency goals. */
  readonly goals: GoalGate

  constructor(options: KvRouterOptions) {
    const { config, clock, random } = options
    this.config = config
    this.#clock = clock
    const load = { table: this.#table, rates: this.#rates, backlog: this.#backlog }
    this.peers = new PeerRequests({
      ...load,
      clock,
      onChanged: (slot) => this.#rows.write(slot),
      onAnswered: (...answer) => this.#bookings.peerAnswered(...answer),
      onMeasured: (slot, told) => this.#forecast.learn(slot, told, clock.nowMs()),
      tell: (config.cost === 'time' && options.onPrompt) || null,
    })
    this.#forecast = new RankForecast(this.#table, this.#rates, this.#backlog, this.peers)
    this.#forecast.onRescaled = () => this.#rows.writeAll()
    const { busy, engineQueue } = config
    this.capacity = new PoolCapacity({ table: this.#table, busy, engineQueue })
    this.#blocks = new BlockUnit(config.blockSize)
    this.#ring = options.ring ?? new DecisionRing(config.explainRecords)
    this.#sequences = new ActiveSequences(
      this.#table,
      () => this.blockSize,
      (slot) => this.capacity.judge.judge(slot),
    )
    this.#oldReports = new OldReports({
      table: this.#table,
      clock,
      onIgnored: (slot) => this.#reportIgnored(slot),
    })
    this.#index = new OverlapIndex({
      approximateTtlMs: 1000 * config.approximateTtlSeconds,
      predictedTtlMs: 1000 * config.predictedTtlSeconds,
      maxBlocks: config.maxIndexBlocks,
      indexBytes: config.indexBytes,
    })
    this.#beliefs = new PromptBeliefs({
      config,
      table: this.#table,
      index: this.#index,
      blocks: this.#blocks,
      onRouted: options.onRouted,
    })
    this.#bookings = new Bookings({
      config,
      clock,
      table: this.#table,
      rates: this.#rates,
      rows: this.#rows,
      turns: this.#turns,
      blocks: this.#blocks,
      sequences: this.#sequences,
      forecast: this.#forecast,
      beliefs: this.#beliefs,
      peers: this.peers,
      capacity: this.capacity,
      onward: () => this.onward,
    })
    this.#events = new EventIntake(this.#table, this.#index, clock)
    this.#selector = new Selector({
      config,
      clock,
      random,
      ...load,
      rows: this.#rows,
      turns: this.#turns,
      open: this.#forecast.open,
      transfers: this.transfers,
      sequences: this.#sequences,
      index: this.#index,
      hasher: options.hasher ?? new PromptHasher(),
      blockSize: () => this.blockSize,
      knowsBlocks: () => this.#blocks.isKnown,
      busy: () => this.capacity.judge.busy,
      onward: () => this.onward,
    })
    this.forecasts = new PlaceForecasts({ clock, ...load })
    this.goals = new GoalGate({
      config,
      clock,
      rates: this.#rates,
      lateRefusal: (query, waitMs) => this.#selector.lateRefusal(query, waitMs),
      onRefused: ({ record }) => {
        this.#ring.add(record)
        this.#refusals++
      },
    })
  }

  workerJoined(card: WorkerCard): void {
    this.#blocks.joined(card, this.#table.workerCount === 0)
    const known = new Set(this.#table.slotsOf(card.workerId))
    for (const slot of this.#table.join(card)) this.#dropSlot(slot)
    for (const slot of this.#table.slotsOf(card.workerId)) {
      if (known.has(slot)) continue
      this.#rates.join(slot, card.engine.pace ?? null)
      this.#backlog.join(slot)
      this.#turns.join(slot)
    }
    for (const slot of this.#table.slotsOf(card.workerId)) this.#rows.write(slot)
    this.fleetVersion++
    this.capacity.grew()
  }

  workerLeft(workerId: WorkerId, _reason: string): void {
    for (const slot of this.#table.leave(workerId)) this.#dropSlot(slot)
    this.fleetVersion++
    this.capacity.grew()
  }

  kvEvents(workerId: WorkerId, batch: KvEventBatch): void {
    if (this.config.useKvEvents) this.#events.take(workerId, batch)
  }

  wantsKvSnapshot(workerId: WorkerId, dpRank: number): boolean {
    return this.#events.wantsSnapshot(workerId, dpRank)
  }

  cacheCleared(workerId: WorkerId): void {
    for (const slot of this.#table.slotsOf(workerId)) this.#index.forgetBeliefs(slot)
  }

  load(workerId: WorkerId, report: LoadReport): void {
    const slot = this.#table.slotOf(workerId, report.dpRank)
    if (slot === -1) return
    this.#index.tend()
    const wasFull = this.#table.full[slot] === 1
    const nowMs = this.#clock.nowMs()
    this.#table.report(slot, report, nowMs)
    this.#forecast.report(slot, report, nowMs)
    this.#loadChanged(slot)
    if (wasFull && this.#table.full[slot] === 0) this.capacity.grew()
  }

  /** Call before it is decided whether a request must wait: what is known of ranks may be too old. */
  expire(): void {
    this.peers.expire()
    this.#oldReports.sweep()
  }

  select(query: SelectionQuery): Selection | Refusal {
    this.expire()
    const answer = this.#selector.select(query)
    this.#ring.add(answer.record)
    if (answer.kind === 'selected') this.#decisions++
    else this.#refusals++
    this.#index.tend()
    return answer
  }

  /** A decision without side effects: no record, no round-robin step, no booking. */
  peek(query: SelectionQuery): Selection | Refusal {
    return this.#selector.select(query, true)
  }

  /** Another frontend has sent this prompt to a worker without KV events. */
  learnRouted(workerId: WorkerId, dpRank: number, sequence: Uint32Array): void {
    if (this.#beliefs.learned(workerId, dpRank, sequence, this.#clock.nowMs()))
      this.capacity.changed()
  }

  /** Slots that could take the request now. */
  eligible(query: SelectionQuery): readonly number[] {
    return this.#selector.eligible(query)
  }

  /** Slots that the request may ever take, however loaded they are; null: all of them. */
  reachable(query: SelectionQuery): readonly number[] | null {
    return this.#selector.reachable(query)
  }

  /** Prompt tokens that the rank with the longest cached prefix would still have to compute. */
  uncachedTokens(query: SelectionQuery): number {
    return Math.max(query.request.tokenIds.length - this.#selector.bestCachedTokens(query), 0)
  }

  /** Records a selection as load. */
  book(selection: Selection): Booking {
    return this.#bookings.add(selection)
  }

  /** The first token has come. */
  prefillDone(booking: Booking): void {
    this.#bookings.prefillDone(booking)
  }

  /** The decode leg of a prefill asks for its place now: the prefill needs none any more. Idempotent. */
  followed(booking: Booking): void {
    this.#bookings.followed(booking)
  }

  /** Adds output tokens to a booking. Returns after how many further tokens it must be called again. */
  output(booking: Booking, tokens: number): number {
    return this.#bookings.output(booking, tokens)
  }

  /** Adds one block of output; `output` does this itself when a block begins. */
  addOutputBlock(booking: Booking, decayFraction?: number): void {
    this.#bookings.addOutputBlock(booking, decayFraction)
  }

  /** The request completed with this many output tokens, of which the engine counted `usageTokens`. */
  served(booking: Booking, tokens: number, usageTokens: number | null = null): void {
    this.#bookings.served(booking, tokens, usageTokens)
  }

  /** Idempotent. */
  free(booking: Booking): void {
    this.#bookings.free(booking)
  }

  /** The worker did not respond: exclude it for `forMs` milliseconds, or until its next load report. */
  fence(workerId: WorkerId, forMs: number): void {
    const untilMs = this.#clock.nowMs() + forMs
    for (const slot of this.#table.slotsOf(workerId)) this.#table.fence(slot, untilMs)
  }

  get workerCount(): number {
    return this.#table.workerCount
  }

  get decodeModeCount(): number {
    return this.#table.decodeModeCount
  }

  /** The card of each worker. */
  get cards(): readonly WorkerCard[] {
    return [...new Set(this.#table.live.map((slot) => this.#table.row(slot).card))]
  }

  /** True if some worker has this data-parallel rank. */
  hasRank(dpRank: number): boolean {
    return this.#table.live.some((slot) => this.#table.row(slot).dpRank === dpRank)
  }

  /** The error if the request names a worker and a rank that this worker does not have. */
  pinnedRankFault(hints: RoutingHints, phase: Phase): BatonError | null {
    const pin = pinOf(hints, phase)
    // Without a rank the session may supply it.
    if (pin === null || pin.dpRank === null) return null
    const slot = pinnedSlot(this.#table, pin, phase)
    return typeof slot === 'number' ? null : slot
  }

  /** Slots of all ranks, unordered. */
  get slots(): readonly number[] {
    return this.#table.live
  }

  cardAt(slot: number): WorkerCard {
    return this.#table.row(slot).card
  }

  taintsOf(slot: number): ReadonlySet<string> {
    return this.#table.row(slot).taints
  }

  /** Tokens per KV block; a default if no worker reports it. */
  get blockSize(): number {
    return this.#blocks.tokens
  }

  cardOf(workerId: WorkerId): WorkerCard | null {
    return this.#table.cardOf(workerId)
  }

  /** Booked load of one rank, with decayed prefill up to date. */
  loadOf(slot: number): BookedLoad {
    this.#sequences.refresh(this.#clock.nowMs())
    return this.#table.bookedLoad(slot)
  }

  status(queue = { requests: 0, promptTokens: 0 }): PoolStatus {
    this.expire()
    this.#sequences.refresh(this.#clock.nowMs())
    return poolStatus({
      config: this.config,
      table: this.#table,
      index: this.#index,
      events: this.#events,
      rates: this.#rates,
      answers: this.answers,
      blockSize: this.blockSize,
      knowsBlocks: this.#blocks.isKnown,
      prefillsUnderWay: this.capacity.underWay.running,
      decisions: this.#decisions,
      refusals: this.#refusals,
      busy: this.capacity.judge.busy,
      queue,
    })
  }

  #dropSlot(slot: number): void {
    this.#bookings.dropSlot(slot)
    this.peers.dropSlot(slot)
    this.#index.removeSlot(slot)
    this.#rates.leave(slot)
    this.#backlog.leave(slot)
    this.#forecast.open.leave(slot)
    this.#turns.leave(slot)
    this.#table.release(slot)
  }

  #reportIgnored(slot: number): void {
    this.#forecast.forgetReport(slot, this.#clock.nowMs())
    this.#loadChanged(slot)
    this.capacity.changed()
  }

  #loadChanged(slot: number): void {
    this.#rows.write(slot)
    this.capacity.judge.judge(slot)
  }
}
