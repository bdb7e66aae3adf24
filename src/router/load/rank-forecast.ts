/**
 * Predicts the times of a booking when it is made, and learns the rank's rates from the measured times. Forwarded
 * requests show only their total time and, at the end, their number of tokens; see `WholeAnswers`.
 */
import type { LoadReport } from '../../kv/index.ts'
import type { Booking } from './active-sequences.ts'
import type { FirstTokenSeen, ServedSeen } from './peer-news.ts'
import type { PeerRequests, ToldPrompt } from './peer-requests.ts'
import { OpenPrompts } from './open-prompts.ts'
import type { RankBacklog } from './rank-backlog.ts'
import type { RankRates } from './rank-rates.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import { nextStartMsOf, sentPromptOf } from './sent-prompt.ts'
import { WholeAnswers } from '../rates/whole-answers.ts'

/** Standard deviation of the wait for the end of the step in progress, which is equally likely at any time. */
const STEP_SPREAD = 0.3

export class RankForecast {
  readonly open = new OpenPrompts()
  /** Called after the predicted times of open prompts on all ranks have changed. */
  onRescaled: () => void = () => undefined
  readonly #table: RankTable
  readonly #rates: RankRates
  readonly #backlog: RankBacklog
  readonly #peers: PeerRequests | null
  readonly #whole = new WholeAnswers()

  constructor(
    table: RankTable,
    rates: RankRates,
    backlog: RankBacklog,
    peers: PeerRequests | null = null,
  ) {
    this.#peers = peers
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
      const prompt = sentPromptOf(this.#table, rates, backlog, slot, tokens, nowMs)
      booking.stepMs = prompt.stepMs + backlog.restMs(slot, prompt.stepMs, nowMs)
      booking.uncachedTokens = tokens
      booking.prefillMs = prompt.ms
      booking.prefillScale = backlog.scale
      booking.isLong = prompt.isLong
      // It is not known when such a prompt is computed; it counts as a running request.
      if (!booking.isWhole) booking.isHeld = backlog.prefillSent(slot, prompt, nowMs)
    }
    if (!booking.showsSpeed) booking.atSent = backlog.at(slot, nowMs)
    backlog.add(slot, promptTokens, nowMs)
  }

  /** The blocks of its prompt (`sequence`: their hashes) are being computed, as far as they are not cached. */
  opened(booking: Booking, tokens: number, sequence: Uint32Array, blockSize: number): void {
    const { slot, promptTokens, isLong } = booking
    // Prompts that arrive during the first steps of a long prompt are computed in its last step.
    const last = isLong ? tokens % (this.#table.maxBatchedTokens[slot] as number) : tokens
    booking.firstNew = Math.floor((promptTokens - last) / blockSize)
    booking.sequence = sequence
    this.open.add(booking)
  }

  /** True if no request waits on the rank for a place in the batch. */
  #hasPlaces(slot: number): boolean {
    return this.#table.excessOf(slot) <= 1 && this.#table.row(slot).reportedQueued === 0
  }

  #prefillGone(booking: Booking, nowMs: number): void {
    const { prefillMs, prefillScale, slot, isLong, isWhole } = booking
    if (prefillMs === null) return
    booking.prefillMs = null
    this.open.remove(booking)
    if (isWhole) return
    const ms = (prefillMs * this.#backlog.scale) / prefillScale
    const nextStartMs = nextStartMsOf(this.#rates, this.#backlog, slot)
    this.#backlog.prefillDone(slot, { ms, isLong, nextStartMs }, nowMs)
  }

  firstToken(booking: Booking, nowMs: number): void {
    if (booking.freed || booking.firstTokenMs !== null) return
    const isPrompt = booking.prefillMs !== null
    booking.first = this.#firstToken(booking, nowMs)
    // Needed until here. A long stream must not keep a record that is not kept for `explain` any more.
    booking.record = null
    booking.onArrival = null
    if (isPrompt && !booking.endsAtFirst) this.#peers?.tell('running', booking)
  }

  /** What the time to the first token shows about the rank's speed; null: nothing. */
  #firstToken(booking: Booking, nowMs: number): FirstTokenSeen | null {
    const { slot, prefillMs, waitMs, stepMs, sentMs } = booking
    booking.firstTokenMs = nowMs
    this.#prefillGone(booking, nowMs)
    booking.atFirst = this.#backlog.at(slot, nowMs)
    const outcome = booking.record?.outcome
    if (outcome?.kind === 'routed') outcome.ttftMs = nowMs - sentMs
    if (!booking.showsSpeed) return null
    if (prefillMs !== null) this.#rates.answered(booking.uncachedTokens, nowMs - sentMs)
    if (!booking.hasPlace || !this.#hasPlaces(slot)) return null
    booking.onArrival?.(nowMs - sentMs - stepMs, STEP_SPREAD * stepMs)
    if (prefillMs === null) return null
    const first = { elapsedMs: nowMs - sentMs, waitMs, stepMs }
    this.#learnFirst(slot, booking.uncachedTokens, first, nowMs)
    return first
  }

  /** Learns from what another frontend has measured. */
  learn(slot: number, { uncachedTokens, first, served }: ToldPrompt, nowMs: number): void {
    if (first !== undefined) this.#learnFirst(slot, uncachedTokens, first, nowMs)
    if (served !== undefined) this.#learnServed(slot, served)
  }

  #learnFirst(slot: number, tokens: number, seen: FirstTokenSeen, nowMs: number): void {
    const { elapsedMs, waitMs, stepMs } = seen
    // The first call only notes the rates that open prompts were predicted with.
    const isRescaled = this.#rescale(nowMs)
    this.#rates.firstToken(slot, tokens, elapsedMs, waitMs, stepMs, nowMs - elapsedMs)
    if (this.#rescale(nowMs) || isRescaled) this.onRescaled()
  }

  #rescale(nowMs: number): boolean {
    const { prefillMs, msPerToken, usualPromptTokens } = this.#rates
    return this.#backlog.rescale(prefillMs, msPerToken, usualPromptTokens, nowMs)
  }

  #learnServed(slot: number, seen: ServedSeen, decodeShare = 1): void {
    const { requests, stepMs, outputTokens, contextTokens, itlMs } = seen
    this.#rates.paceSeen(itlMs, this.#rates.stepMsAt(slot, requests, contextTokens))
    this.#rates.ended(slot, requests, stepMs, outputTokens, contextTokens, decodeShare)
  }

  /** Load of the rank beyond what this router has sent. Reports are slightly old, so unclear differences do not count. */
  report(slot: number, report: LoadReport, nowMs: number): void {
    const table = this.#table
    const reported = report.runningRequests + report.queuedRequests
    const active = table.activeRequests[slot] as number
    this.#peers?.reported(slot, reported, active - (table.openPrefills[slot] as number), nowMs)
    const known = active + (table.peerRequests[slot] as number)
    const others = Math.max(reported - known, 0)
    const toldTokens =
      (table.activePrefillTokens[slot] as number) + (table.peerPromptTokens[slot] as number)
    const excess = report.prefillTokensInFlight - toldTokens
    const tokens = others === 0 ? 0 : (Math.max(excess, 0) * others) / reported
    const prefillMs = tokens * this.#rates.perTokenMs(slot)
    this.#backlog.others(slot, others, prefillMs, nowMs)
  }

  /** The last report does not count any more. */
  forgetReport(slot: number, nowMs: number): void {
    this.#backlog.others(slot, 0, 0, nowMs)
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
    const itlMs = elapsedMs / (tokens - 1)
    const seen = { requests, contextTokens, outputTokens: tokens, stepMs, itlMs }
    this.#learnServed(slot, seen, Math.max(1 - prefilledMs / elapsedMs, 0))
    booking.served = seen
  }

  /** A forwarded request completed; `tokens`: output tokens by the server's usage, null if it reported none. */
  forwarded(booking: Booking, tokens: number | null, nowMs: number): void {
    const { slot, atSent, sentMs, uncachedTokens } = booking
    const totalMs = nowMs - sentMs
    if (booking.freed || atSent === null || tokens === null || tokens < 1 || totalMs <= 0) return
    if (booking.endsAtFirst || !booking.hasPlace || !this.#hasPlaces(slot)) return
    const now = this.#backlog.at(slot, nowMs)
    const requests = (now.requestMs - atSent.requestMs) / totalMs
    const contextTokens = (now.contextMs - atSent.contextMs) / totalMs
    // The equations are those of the average rank.
    const factor = this.#rates.prefillFactor[slot] as number
    const whole = { uncachedTokens, outputTokens: tokens, requests, totalMs: totalMs / factor }
    const parts = this.#whole.split(whole)
    if (parts === null) return
    const ttftMs = factor * parts.ttftMs
    const itlMs = parts.itlMs === null ? null : factor * parts.itlMs
    if (uncachedTokens > 0)
      this.#learnFirst(slot, uncachedTokens, { elapsedMs: ttftMs, waitMs: 0, stepMs: 0 }, nowMs)
    if (itlMs === null) return
    const seen = { requests, contextTokens, outputTokens: tokens, stepMs: itlMs, itlMs }
    this.#learnServed(slot, seen)
  }

  /** A step of the rank has just ended, because one of its requests has. */
  stepEnded({ slot }: Booking, nowMs: number): void {
    this.#backlog.stepEndMs[slot] = nowMs
  }

  freed(booking: Booking, nowMs: number): void {
    this.#peers?.tell('ended', booking)
    this.#prefillGone(booking, nowMs)
    this.#backlog.free(booking.slot, booking.promptTokens, nowMs)
  }
}
