/**
 * What the requests that are sent from here hold on the ranks of a pool, from their selection to their end: load and
 * predicted times, prompts assumed to be cached, places for their decode legs. Other frontends are told of them.
 *
 * A booking is freed exactly once, however the request ends or if its rank leaves; calls after that change nothing.
 */
import type { Clock } from '../../base/index.ts'
import type { PoolCapacity } from '../capacity/pool-capacity.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { ActiveSequences, Booking, BookingOptions } from '../load/active-sequences.ts'
import type { BlockUnit } from '../load/block-unit.ts'
import type { LaterTurns } from '../load/later-turns.ts'
import { OpenLimits } from '../load/open-limits.ts'
import type { PeerRequests } from '../load/peer-requests.ts'
import type { PriceRows } from '../load/price-rows.ts'
import type { RankForecast } from '../load/rank-forecast.ts'
import type { RankRates } from '../load/rank-rates.ts'
import { ANYWHERE } from '../ranks/rank-group.ts'
import type { RankGroup } from '../ranks/rank-group.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import type { OnwardRoom } from './decision-scope.ts'
import type { PromptBeliefs } from './prompt-beliefs.ts'
import type { Selection } from './selection.ts'

/** The parts of a pool's state that bookings change. */
interface BookingParts {
  readonly config: RouterConfig
  readonly clock: Clock
  readonly table: RankTable
  readonly rates: RankRates
  readonly rows: PriceRows
  readonly turns: LaterTurns
  readonly blocks: BlockUnit
  readonly sequences: ActiveSequences
  readonly forecast: RankForecast
  readonly beliefs: PromptBeliefs
  readonly peers: PeerRequests
  readonly capacity: PoolCapacity
  readonly onward: () => OnwardRoom | null
}

export class Bookings {
  readonly #parts: BookingParts
  readonly #openLimits: OpenLimits

  constructor(parts: BookingParts) {
    this.#parts = parts
    this.#openLimits = new OpenLimits(parts.table, parts.config.engineQueue)
  }

  add(selection: Selection): Booking {
    const { config, clock, rates, turns, blocks, sequences } = this.#parts
    const { forecast, beliefs, peers, capacity } = this.#parts
    const nowMs = clock.nowMs()
    const { phase, hashes, promptTokens, cachedTokens } = selection
    const options = this.#optionsOf(selection)
    const { prefillTokens: tokens } = options
    const booking = sequences.add(options, nowMs)
    if (phase !== 'decode') rates.placed(promptTokens, cachedTokens)
    forecast.predict(booking, tokens, nowMs)
    this.#openLimits.sent(booking, tokens ?? promptTokens, nowMs)
    if (tokens !== null && hashes !== null && config.cost === 'time') {
      forecast.opened(booking, tokens, hashes.sequence, blocks.tokens)
    }
    if (booking.onward !== null) capacity.underWay.sent(booking.onward)
    peers.tell(tokens === null ? 'running' : 'sent', booking)
    turns.sent(selection, blocks.tokens, nowMs)
    beliefs.placed(selection, nowMs)
    this.#loadChanged(booking.slot)
    capacity.changed()
    return booking
  }

  #optionsOf(selection: Selection): BookingOptions {
    const { trackActiveBlocks, prefillTokensPerSecond: speed } = this.#parts.config
    const { slot, phase, hashes, promptTokens } = selection
    const isTracked = trackActiveBlocks && hashes !== null
    const byHash = isTracked && selection.assumeKvReuse
    const tokens = selection.trackPrefill ? selection.effectivePrefillTokens : null
    return {
      slot,
      hashes: byHash ? hashes.sequence : null,
      privateBlocks: isTracked && !byHash ? hashes.sequence.length / 2 : 0,
      promptTokens,
      prefillTokens: tokens,
      prefillDurationMs: speed === null || tokens === null ? null : (1000 * tokens) / speed,
      expectedOutputTokens: selection.expectedOutputTokens,
      record: selection.record,
      showsSpeed: selection.isForwarded !== true,
      isWhole: selection.isWhole === true,
      endsAtFirst: phase === 'prefill',
      onward: this.#onwardOf(selection),
      wasHandedOver: phase === 'decode',
    }
  }

  #onwardOf({ phase, isEmbedding, slot, next }: Selection): RankGroup | null {
    if (phase !== 'prefill' || isEmbedding === true) return null
    return this.#parts.onward()?.groupOf(slot, next) ?? ANYWHERE
  }

  prefillDone(booking: Booking): void {
    const { clock, table, rows, sequences, forecast, capacity } = this.#parts
    const nowMs = clock.nowMs()
    forecast.firstToken(booking, nowMs)
    const isDone = sequences.prefillDone(booking, nowMs)
    const isAnswered = this.#openLimits.answered(booking, nowMs)
    const isProbe = !booking.freed && table.answered(booking.slot)
    rows.write(booking.slot)
    if (!isDone && !isAnswered && !isProbe) return
    capacity.judge.judge(booking.slot)
    capacity.grew()
  }

  /** A request that another frontend sent to this rank has its first token. */
  peerAnswered(slot: number, tokens: number, elapsedMs: number): void {
    const { clock, capacity } = this.#parts
    if (!this.#openLimits.peerAnswered(slot, tokens, elapsedMs, clock.nowMs())) return
    capacity.judge.judge(slot)
    capacity.changed()
  }

  /** The decode leg of a prefill asks for its place now: the prefill needs none any more. Idempotent. */
  followed(booking: Booking): void {
    const { clock, capacity } = this.#parts
    if (booking.freed || !this.#follow(booking, clock.nowMs())) return
    capacity.changed()
  }

  #follow(booking: Booking, nowMs: number): boolean {
    const { onward, sentMs } = booking
    if (onward === null || booking.isFollowed) return false
    booking.isFollowed = true
    this.#parts.capacity.underWay.followed(onward, nowMs - sentMs)
    return true
  }

  /** Adds output tokens to a booking. Returns after how many further tokens it must be called again. */
  output(booking: Booking, tokens: number): number {
    const { config, rows, sequences } = this.#parts
    if (!config.trackOutputBlocks) return Infinity
    const untilNext = sequences.addOutput(booking, tokens)
    rows.write(booking.slot)
    return untilNext
  }

  /** Adds one block of output; `output` does this itself when a block begins. */
  addOutputBlock(booking: Booking, decayFraction?: number): void {
    this.#parts.sequences.addOutputBlock(booking, decayFraction)
    this.#parts.rows.write(booking.slot)
  }

  /** The request completed with this many output tokens, of which the engine counted `usageTokens`. */
  served(booking: Booking, tokens: number, usageTokens: number | null = null): void {
    const { clock, rows, forecast } = this.#parts
    const nowMs = clock.nowMs()
    forecast.stepEnded(booking, nowMs)
    if (booking.showsSpeed) forecast.served(booking, tokens, nowMs)
    else forecast.forwarded(booking, usageTokens, nowMs)
    rows.write(booking.slot)
  }

  /** Idempotent. */
  free(booking: Booking): void {
    const { clock, sequences, forecast, capacity } = this.#parts
    const nowMs = clock.nowMs()
    if (!sequences.free(booking, nowMs)) return
    forecast.freed(booking, nowMs)
    this.#ended(booking, nowMs)
    this.#loadChanged(booking.slot)
    capacity.grew()
  }

  /** The rank has left: frees its bookings. */
  dropSlot(slot: number): void {
    const nowMs = this.#parts.clock.nowMs()
    for (const booking of this.#parts.sequences.dropSlot(slot, nowMs)) this.#ended(booking, nowMs)
    this.#openLimits.leave(slot)
  }

  /** What is counted until the end, also when the rank has left. */
  #ended(booking: Booking, nowMs: number): void {
    const { capacity } = this.#parts
    this.#openLimits.ended(booking, nowMs)
    this.#follow(booking, nowMs)
    if (booking.onward !== null) capacity.underWay.ended()
    capacity.ended(booking.wasHandedOver)
  }

  #loadChanged(slot: number): void {
    this.#parts.rows.write(slot)
    this.#parts.capacity.judge.judge(slot)
  }
}
