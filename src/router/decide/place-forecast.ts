/**
 * What is predicted of a place: until a prompt is computed there, what the others there lose by it, and until a prompt that
 * was computed elsewhere goes on there. In milliseconds before a first token, so that two ways of serving a request can
 * be compared (conditional disaggregation).
 */
import type { Clock } from '../../base/index.ts'
import type { RankBacklog } from '../load/rank-backlog.ts'
import type { RankRates } from '../load/rank-rates.ts'
import { expectedExcess } from '../load/rank-table.ts'
import type { RankTable } from '../load/rank-table.ts'
import type { Selection } from './selection.ts'

export interface PromptForecast {
  /** For a place in the batch, the prompts before it and the step under way. */
  readonly waitMs: number
  readonly promptMs: number
  /** What those that wait or decode there lose, all together: each of them ends so much later. */
  readonly othersMs: number
}

export interface PlaceForecastParts {
  readonly clock: Clock
  readonly table: RankTable
  readonly rates: RankRates
  readonly backlog: RankBacklog
}

export class PlaceForecasts {
  readonly #parts: PlaceForecastParts

  constructor(parts: PlaceForecastParts) {
    this.#parts = parts
  }

  /** Enough first tokens have come, and as predicted. */
  get isTrusted(): boolean {
    return this.#parts.rates.isTrusted
  }

  get isLost(): boolean {
    return this.#parts.rates.isLost
  }

  /** Of a prompt token, at a rank like most. */
  get msPerToken(): number {
    return this.#parts.rates.msPerToken
  }

  /** Until so many prompt tokens are computed that wait outside, spread over all ranks; some are found cached. */
  outsideMs(promptTokens: number): number {
    const { table, rates } = this.#parts
    const ranks = Math.max(table.live.length, 1)
    return (promptTokens * (1 - rates.reuseShare) * rates.msPerToken) / ranks
  }

  /** `alike`: a pool whose pace stands for this one's as long as too few prompts have been computed here. */
  promptAt(
    { slot, phase, effectivePrefillTokens }: Selection,
    alike: PlaceForecasts,
  ): PromptForecast {
    const { rates, backlog, clock } = this.#parts
    const isKnown = rates.isTrusted
    const pace = isKnown ? rates : alike.#parts.rates
    const startMs = isKnown ? rates.ttftMs(slot, 0) : pace.prefillMs
    const tokensMs = effectivePrefillTokens * (isKnown ? rates.perTokenMs(slot) : pace.msPerToken)
    const running = backlog.runningOn(slot)
    const waiting = backlog.waiting[slot] as number
    const contexts = backlog.contextTokens[slot] as number
    const stepMs = running > 0 ? rates.stepMsAt(slot, running, contexts) : 0
    const nowMs = clock.nowMs()
    const join = backlog.joinShare(slot, nowMs)
    const first = (backlog.open[slot] as number) - waiting
    // Whose prompt is computed now goes on to decode there, but not at a prefill worker.
    const stay = phase === 'prefill' ? 0 : first
    const apartMs = waiting > 0 ? tokensMs : startMs + tokensMs
    const before = pace.waitShare * backlog.waitMs(slot, nowMs, startMs) + pace.stepShare * stepMs
    return {
      waitMs: this.#placeMs(slot) + before,
      promptMs: startMs + tokensMs,
      othersMs:
        (first + running) * join * tokensMs + (stay + waiting + running) * (1 - join) * apartMs,
    }
  }

  /** Until the first step of a request whose prompt has been computed elsewhere and moved. */
  outputMs({ slot, promptTokens }: Selection): number {
    const { rates, backlog } = this.#parts
    const contexts = (backlog.contextTokens[slot] as number) + promptTokens
    return this.#placeMs(slot) + rates.stepMsAt(slot, backlog.runningOn(slot) + 1, contexts)
  }

  #placeMs(slot: number): number {
    const { table, rates, backlog } = this.#parts
    const places = table.maxSequences[slot] as number
    const excess = expectedExcess(table.excessOf(slot))
    return rates.placeMs(slot, excess, places, backlog.contextTokens[slot] as number)
  }
}
