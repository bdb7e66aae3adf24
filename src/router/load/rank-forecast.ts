/**
 * What is predicted of a booking when it is made, and what is learned of its rank when it comes.
 */
import type { LoadReport } from '../../kv/index.ts'
import type { Booking } from './active-sequences.ts'
import type { RankBacklog } from './rank-backlog.ts'
import type { RankRates } from './rank-rates.ts'
import type { RankTable } from './rank-table.ts'

export class RankForecast {
  readonly #table: RankTable
  readonly #rates: RankRates
  readonly #backlog: RankBacklog

  constructor(table: RankTable, rates: RankRates, backlog: RankBacklog) {
    this.#table = table
    this.#rates = rates
    this.#backlog = backlog
  }

  /** What the booking waits for and how long its prompt takes, by what is known of the rank. */
  predict(booking: Booking, tokens: number | null, nowMs: number): void {
    const { slot, promptTokens } = booking
    const [rates, backlog] = [this.#rates, this.#backlog]
    const running = backlog.runningOn(slot)
    // A wait for a place in a batch says nothing of how fast prompts are computed or moved.
    booking.hasPlace = this.#hasPlaces(slot)
    if (tokens === null) {
      const contexts = (backlog.contextTokens[slot] as number) + promptTokens
      booking.stepMs = rates.stepMsAt(slot, running + 1, contexts)
    } else {
      booking.waitMs = backlog.waitMs(slot, nowMs, rates.ttftMs(slot, 0))
      booking.stepMs =
        running === 0 ? 0 : rates.stepMsAt(slot, running, backlog.contextTokens[slot] as number)
      booking.uncachedTokens = tokens
      // Prompts that wait together share what a step costs by itself.
      const startMs = (backlog.open[slot] as number) > 0 ? 0 : rates.ttftMs(slot, 0)
      booking.prefillMs = startMs + rates.perTokenMs(slot) * tokens
      booking.isLong = tokens > (this.#table.maxBatchedTokens[slot] as number)
      const { prefillMs: ms, isLong, stepMs } = booking
      backlog.prefillSent(slot, { ms, isLong, stepMs }, nowMs)
    }
    backlog.add(slot, promptTokens, nowMs)
  }

  /** Nobody waits there for a place in the batch. */
  #hasPlaces(slot: number): boolean {
    return this.#table.excessOf(slot) <= 1 && this.#table.row(slot).reportedQueued === 0
  }

  #prefillGone(booking: Booking, nowMs: number): void {
    const { prefillMs, slot } = booking
    if (prefillMs === null) return
    booking.prefillMs = null
    this.#backlog.prefillDone(slot, prefillMs, booking.isLong, nowMs)
  }

  firstToken(booking: Booking, nowMs: number): void {
    const { slot, freed, firstTokenMs, prefillMs, waitMs, stepMs, sentMs } = booking
    if (freed || firstTokenMs !== null) return
    booking.firstTokenMs = nowMs
    this.#prefillGone(booking, nowMs)
    booking.atFirst = this.#backlog.at(slot, nowMs)
    const outcome = booking.record?.outcome
    if (outcome?.kind === 'routed') outcome.ttftMs = nowMs - sentMs
    if (prefillMs !== null) this.#rates.answered(booking.uncachedTokens, nowMs - sentMs)
    if (!booking.hasPlace || !this.#hasPlaces(slot)) return
    booking.onArrival?.(nowMs - sentMs - stepMs)
    if (prefillMs === null) return
    this.#rates.firstToken(slot, booking.uncachedTokens, nowMs - sentMs, waitMs, stepMs)
  }

  /** What the rank has beyond what this router has sent. Reports are of a moment ago: what is not clear does not count. */
  report(slot: number, report: LoadReport, nowMs: number): void {
    const table = this.#table
    const reported = report.runningRequests + report.queuedRequests
    const others = Math.max(reported - (table.activeRequests[slot] as number), 0)
    const excess = report.prefillTokensInFlight - (table.activePrefillTokens[slot] as number)
    const tokens = others === 0 ? 0 : (Math.max(excess, 0) * others) / reported
    const prefillMs = tokens * this.#rates.perTokenMs(slot)
    this.#backlog.others(slot, others, prefillMs, nowMs)
  }

  /** It has ended well after so many tokens. */
  served(booking: Booking, tokens: number, nowMs: number): void {
    const { firstTokenMs, slot, atFirst } = booking
    if (booking.freed || firstTokenMs === null || atFirst === null || tokens < 2) return
    const elapsedMs = nowMs - firstTokenMs
    if (elapsedMs <= 0) return
    const now = this.#backlog.at(slot, nowMs)
    // Prompts that were computed between its tokens are no part of a step.
    const prefilledMs = now.prefilledMs - atFirst.prefilledMs
    const stepMs = Math.max(elapsedMs - prefilledMs, elapsedMs / 4) / (tokens - 1)
    const requests = (now.requestMs - atFirst.requestMs) / elapsedMs
    const contextTokens = (now.contextMs - atFirst.contextMs) / elapsedMs
    const predictedMs = this.#rates.stepMsAt(slot, requests, contextTokens)
    this.#rates.paceSeen(elapsedMs / (tokens - 1), predictedMs)
    this.#rates.ended(slot, requests, stepMs, tokens, contextTokens)
  }

  freed(booking: Booking, nowMs: number): void {
    this.#prefillGone(booking, nowMs)
    this.#backlog.free(booking.slot, booking.promptTokens, nowMs)
  }
}
