/**
 * Compares what answers report with what the router expected: prompt tokens from the cache with the forecast of the
 * decision, and whether the KV of a hand-over has been used.
 *
 * A forecast that is often wrong means that events are lost or blocks are hashed otherwise than by the engine; routing
 * then works worse than it looks.
 */
import type { Chunk, Phase } from '../../request/index.ts'

export interface AnswerStatus {
  /** Answers of workers with KV events that told what was cached. */
  readonly forecasts: number
  readonly forecastsOff: number
  /** Of the last few. */
  readonly recentForecasts: number
  readonly recentForecastsOff: number
  /** Decode legs, as far as the engine tells. */
  readonly kvMoved: number
  readonly kvNotMoved: number
}

interface Forecast {
  readonly phase: Phase
  readonly promptTokens: number
  readonly cachedTokens: number
  /** For workers without events, and prompts whose tokens are not the engine's, the cached blocks are only estimated. */
  readonly isKnown: boolean
}

const RECENT = 64

export class AnswerCheck {
  readonly #recent: boolean[] = []
  #forecasts = 0
  #off = 0
  #kvMoved = 0
  #kvNotMoved = 0

  /** The terminal chunk of a leg. */
  ended({ finish, usage, engineData }: Chunk, forecast: Forecast, blockTokens: number): void {
    if (finish === 'cancelled') return
    if (forecast.phase === 'decode') this.#countHandOver(engineData)
    else if (forecast.isKnown && usage?.cachedTokens !== undefined) {
      this.#compare(usage.cachedTokens, forecast, blockTokens)
    }
  }

  status(): AnswerStatus {
    return {
      forecasts: this.#forecasts,
      forecastsOff: this.#off,
      recentForecasts: this.#recent.length,
      recentForecastsOff: this.#recent.filter((isOff) => isOff).length,
      kvMoved: this.#kvMoved,
      kvNotMoved: this.#kvNotMoved,
    }
  }

  #countHandOver(engineData: unknown): void {
    if (typeof engineData !== 'object' || engineData === null || !('kv_moved' in engineData)) return
    if (engineData.kv_moved === true) this.#kvMoved += 1
    if (engineData.kv_moved === false) this.#kvNotMoved += 1
  }

  /** An engine computes the last token again, and with it its block; one block more or less is a matter of timing. */
  #compare(cachedTokens: number, forecast: Forecast, blockTokens: number): void {
    const reusable = Math.floor(Math.max(0, forecast.promptTokens - 1) / blockTokens) * blockTokens
    const expected = Math.min(forecast.cachedTokens, reusable)
    const isOff = Math.abs(cachedTokens - expected) > blockTokens
    this.#forecasts += 1
    if (isOff) this.#off += 1
    this.#recent.push(isOff)
    if (this.#recent.length > RECENT) this.#recent.shift()
  }
}
