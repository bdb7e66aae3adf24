/**
 * Compares the usage that replies report with what the router expected: cached prompt tokens against the forecast,
 * and whether the KV of a hand-over was used.
 *
 * An engine that transfers KV itself reports it at the end (`kv_moved`); for the others the worker reports it with the
 * first token.
 *
 * A forecast that is often wrong means that KV events are lost or that the engine hashes blocks differently; routing
 * is then worse than it appears.
 */
import type { Chunk, Phase } from '../../request/index.ts'

export interface AnswerStatus {
  /** Replies from workers with KV events that reported their cached tokens, and how many of them were off. */
  readonly forecasts: number
  readonly forecastsOff: number
  /** The same for the most recent replies. */
  readonly recentForecasts: number
  readonly recentForecastsOff: number
  /** Decode legs, as far as the engine reports whether it used the transferred KV. */
  readonly kvMoved: number
  readonly kvNotMoved: number
  /** The most recent KV transfers between Baton's workers, and how many of them failed: the prompt was computed again. */
  readonly recentTransfers: number
  readonly recentRecomputed: number
}

interface Forecast {
  readonly phase: Phase
  readonly promptTokens: number
  readonly cachedTokens: number
  /** False for workers without events and for estimated token ids, where cached blocks are only an estimate. */
  readonly isKnown: boolean
}

const RECENT = 64

export class AnswerCheck {
  readonly #recent: boolean[] = []
  readonly #recentTransfers: boolean[] = []
  #forecasts = 0
  #off = 0
  #kvMoved = 0
  #kvNotMoved = 0

  /** Evaluates the terminal chunk of a leg. */
  ended({ finish, usage, engineData }: Chunk, forecast: Forecast, blockTokens: number): void {
    if (finish === 'cancelled') return
    if (forecast.phase === 'decode') this.#countHandOver(engineData)
    else if (forecast.isKnown && usage?.cachedTokens !== undefined) {
      this.#compare(usage.cachedTokens, forecast, blockTokens)
    }
  }

  transferred(isRecomputed: boolean): void {
    keepRecent(this.#recentTransfers, isRecomputed)
  }

  status(): AnswerStatus {
    return {
      forecasts: this.#forecasts,
      forecastsOff: this.#off,
      recentForecasts: this.#recent.length,
      recentForecastsOff: this.#recent.filter((isOff) => isOff).length,
      kvMoved: this.#kvMoved,
      kvNotMoved: this.#kvNotMoved,
      recentTransfers: this.#recentTransfers.length,
      recentRecomputed: this.#recentTransfers.filter((isRecomputed) => isRecomputed).length,
    }
  }

  #countHandOver(engineData: unknown): void {
    if (typeof engineData !== 'object' || engineData === null || !('kv_moved' in engineData)) return
    if (engineData.kv_moved === true) this.#kvMoved += 1
    if (engineData.kv_moved === false) this.#kvNotMoved += 1
  }

  /** An engine always computes the last token again, and with it the last block; one block of difference is timing. */
  #compare(cachedTokens: number, forecast: Forecast, blockTokens: number): void {
    const reusable = Math.floor(Math.max(0, forecast.promptTokens - 1) / blockTokens) * blockTokens
    const expected = Math.min(forecast.cachedTokens, reusable)
    const isOff = Math.abs(cachedTokens - expected) > blockTokens
    this.#forecasts += 1
    if (isOff) this.#off += 1
    keepRecent(this.#recent, isOff)
  }
}

function keepRecent(recent: boolean[], value: boolean): void {
  recent.push(value)
  if (recent.length > RECENT) recent.shift()
}
