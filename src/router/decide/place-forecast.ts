/**
 * Predictions for a rank, in milliseconds: time until a prompt is computed there, delay of the other requests there,
 * and time until a request whose prompt was computed elsewhere continues there. Used to compare the two ways of
 * serving a request (conditional disaggregation).
 */
import type { Clock } from '../../base/index.ts'
import type { RankBacklog } from '../load/rank-backlog.ts'
import type { RankRates } from '../load/rank-rates.ts'
import { expectedExcess } from './expected-excess.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import type { Selection } from './selection.ts'

interface PromptForecast {
  /** Wait for a place in the batch, for the prompts queued before it and for the step in progress. */
  readonly waitMs: number
  readonly promptMs: number
  /** Sum of the delays of all requests that wait or decode there. */
  readonly othersMs: number
}

interface PlaceForecastParts {
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

  /** Enough first tokens have been measured, and predictions were close to them. */
  get isTrusted(): boolean {
    return this.#parts.rates.isTrusted
  }

  get isLost(): boolean {
    return this.#parts.rates.isLost
  }

  /** Milliseconds per prompt token on an average rank. */
  get msPerToken(): number {
    return this.#parts.rates.msPerToken
  }

  /** Time until the prompt tokens queued in the router are computed, spread over all ranks; the usual share is cached. */
  outsideMs(promptTokens: number): number {
    const { table, rates } = this.#parts
    const ranks = Math.max(table.live.length, 1)
    return (promptTokens * (1 - rates.reuseShare) * rates.msPerToken) / ranks
  }

  /**
   * The forecast for a prompt on the selected rank. `alike`: the other pool, whose rates are used until enough
   * prompts have been measured in this one.
   */
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
    // A request whose prompt is computed now goes on to decode on the same rank, except on a prefill worker.
    const stay = phase === 'prefill' ? 0 : first
    const separateMs = waiting > 0 ? tokensMs : startMs + tokensMs
    const untilStepMs = backlog.restMs(slot, stepMs, nowMs) + stepMs
    const before =
      pace.waitShare * backlog.waitMs(slot, nowMs, startMs) + pace.stepShare * untilStepMs
    return {
      waitMs: this.#placeMs(slot) + before,
      promptMs: startMs + tokensMs,
      othersMs:
        (first + running) * join * tokensMs + (stay + waiting + running) * (1 - join) * separateMs,
    }
  }

  /** Time until the first decode step of a request whose prompt was computed elsewhere and transferred. */
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
