/**
 * Predicts the times of a booking when it is made, and learns the rank's rates from the measured times, except those of
 * forwarded requests.
 */
import type { LoadReport } from '../../kv/index.ts'
import type { Booking } from './active-sequences.ts'
import type { RankBacklog, SentPrompt } from './rank-backlog.ts'
import type { RankRates } from './rank-rates.ts'
import type { RankTable } from './rank-table.ts'

export class RankForecast {
  readonly #table: RankTable
  readonly #rates: RankRates
  readonly #backlog: RankBacklog

  readonly #onComputed: (booking: Booking, runs: boolean) => void

  /** `onComputed` is called when the prompt of a booking is computed (`runs`), or when the request ended before that. */
  constructor(
    table: RankTable,
    rates: RankRates,
    backlog: RankBacklog,
    onComputed: (booking: Booking, runs: boolean) => void = () => undefined,
  ) {
    this.#onComputed = onComputed
    this.#table = table
    this.#rates = rates
    this.#backlog = backlog
  }

  /** Predicts the wait and the prefill time of the booking from the rates of the rank. */
  predict(booking: Booking, tokens: number | null, nowMs: number): void {
    const { slot, promptTokens } = booking
    const [rates, backlog] = [this.#rates, this.#backlog]
    const running = backlog.runningOn(slot)
    // Time spent waiting for a place in a batch says nothing about prefill or transfer speed.
    booking.hasPlace = this.#hasPlaces(slot)
    if (tokens === null) {
      const contexts = (backlog.contextTokens[slot] as number) + promptTokens
      booking.stepMs = rates.stepMsAt(slot, running + 1, contexts)
    } else {
      booking.waitMs = backlog.waitMs(slot, nowMs, rates.ttftMs(slot, 0))
      const prompt = sentPromptOf(this.#table, rates, backlog, slot, tokens)
      booking.stepMs = prompt.stepMs
      booking.uncachedTokens = tokens
      booking.prefillMs = prompt.ms
      booking.isLong = prompt.isLong
      backlog.prefillSent(slot, prompt, nowMs)
    }
    backlog.add(slot, promptTokens, nowMs)
  }

  /** True if no request waits on the rank for a place in the batch. */
  #hasPlaces(slot: number): boolean {
    return this.#table.excessOf(slot) <= 1 && this.#table.row(slot).reportedQueued === 0
  }

  #prefillGone(booking: Booking, runs: boolean, nowMs: number): void {
    const { prefillMs, slot } = booking
    if (prefillMs === null) return
    booking.prefillMs = null
    this.#backlog.prefillDone(slot, prefillMs, booking.isLong, nowMs)
    this.#onComputed(booking, runs)
  }

  firstToken(booking: Booking, nowMs: number): void {
    const { slot, freed, firstTokenMs, prefillMs, waitMs, stepMs, sentMs } = booking
    if (freed || firstTokenMs !== null) return
    booking.firstTokenMs = nowMs
    this.#prefillGone(booking, true, nowMs)
    booking.atFirst = this.#backlog.at(slot, nowMs)
    const outcome = booking.record?.outcome
    if (outcome?.kind === 'routed') outcome.ttftMs = nowMs - sentMs
    if (!booking.showsSpeed) return
    if (prefillMs !== null) this.#rates.answered(booking.uncachedTokens, nowMs - sentMs)
    if (!booking.hasPlace || !this.#hasPlaces(slot)) return
    booking.onArrival?.(nowMs - sentMs - stepMs)
    if (prefillMs === null) return
    this.#rates.firstToken(slot, booking.uncachedTokens, nowMs - sentMs, waitMs, stepMs)
  }

  /** Load of the rank beyond what this router has sent. Reports are slightly old, so unclear differences do not count. */
  report(slot: number, report: LoadReport, nowMs: number): void {
    const table = this.#table
    const reported = report.runningRequests + report.queuedRequests
    const known = (table.activeRequests[slot] as number) + (table.peerPrompts[slot] as number)
    const others = Math.max(reported - known, 0)
    const toldTokens =
      (table.activePrefillTokens[slot] as number) + (table.peerPromptTokens[slot] as number)
    const excess = report.prefillTokensInFlight - toldTokens
    const tokens = others === 0 ? 0 : (Math.max(excess, 0) * others) / reported
    const prefillMs = tokens * this.#rates.perTokenMs(slot)
    this.#backlog.others(slot, others, prefillMs, nowMs)
  }

  /** The request completed with this many output tokens. */
  served(booking: Booking, tokens: number, nowMs: number): void {
    const { firstTokenMs, slot, atFirst } = booking
    if (!booking.showsSpeed) return
    if (booking.freed || firstTokenMs === null || atFirst === null || tokens < 2) return
    const elapsedMs = nowMs - firstTokenMs
    if (elapsedMs <= 0) return
    const now = this.#backlog.at(slot, nowMs)
    // Prefills that ran between its tokens are not part of the step time.
    const prefilledMs = now.prefilledMs - atFirst.prefilledMs
    const stepMs = Math.max(elapsedMs - prefilledMs, elapsedMs / 4) / (tokens - 1)
    const requests = (now.requestMs - atFirst.requestMs) / elapsedMs
    const contextTokens = (now.contextMs - atFirst.contextMs) / elapsedMs
    const predictedMs = this.#rates.stepMsAt(slot, requests, contextTokens)
    this.#rates.paceSeen(elapsedMs / (tokens - 1), predictedMs)
    this.#rates.ended(slot, requests, stepMs, tokens, contextTokens)
  }

  freed(booking: Booking, nowMs: number): void {
    this.#prefillGone(booking, false, nowMs)
    this.#backlog.free(booking.slot, booking.promptTokens, nowMs)
  }
}

/** The predicted times of a prompt with so many uncached tokens that is sent to the rank now. */
export function sentPromptOf(
  table: RankTable,
  rates: RankRates,
  backlog: RankBacklog,
  slot: number,
  tokens: number,
): SentPrompt {
  const running = backlog.runningOn(slot)
  const contexts = backlog.contextTokens[slot] as number
  // Prompts that wait together share the fixed cost of a prefill step.
  const startMs = (backlog.open[slot] as number) > 0 ? 0 : rates.ttftMs(slot, 0)
  return {
    ms: startMs + rates.perTokenMs(slot) * tokens,
    isLong: tokens > (table.maxBatchedTokens[slot] as number),
    stepMs: running <= 0 ? 0 : rates.stepMsAt(slot, running, contexts),
  }
}
