/**
 * A circuit breaker for an upstream: closed (calls allowed), open (no calls until a time), half open (one trial
 * call).
 *
 * Owns: when it opens and for how long. Only failures of the upstream count, never the refusal of an invalid
 * request.
 */
import type { Clock } from '../../base/index.ts'

export interface BreakerOptions {
  /** Consecutive failures that open it. */
  readonly failuresMax: number
  readonly firstPauseMs: number
  /** Each further failure doubles the pause up to this limit. */
  readonly pauseMaxMs: number
}

const DEFAULT_BREAKER: BreakerOptions = Object.freeze({
  failuresMax: 3,
  firstPauseMs: 500,
  pauseMaxMs: 15_000,
})

export type BreakerState = 'closed' | 'open' | 'half-open'

export class Breaker {
  readonly #clock: Clock
  readonly #options: BreakerOptions
  #failures = 0
  #openUntilMs = 0
  #isTrying = false
  #timesOpened = 0

  constructor(clock: Clock, options: BreakerOptions = DEFAULT_BREAKER) {
    this.#clock = clock
    this.#options = options
  }

  get state(): BreakerState {
    if (this.#failures < this.#options.failuresMax) return 'closed'
    return this.#clock.nowMs() < this.#openUntilMs ? 'open' : 'half-open'
  }

  get timesOpened(): number {
    return this.#timesOpened
  }

  /** False: do not call now. Half open returns true once; then `succeeded`, `failed` or `gaveUp` must follow. */
  mayTry(): boolean {
    const { state } = this
    if (state === 'closed') return true
    if (state === 'open' || this.#isTrying) return false
    this.#isTrying = true
    return true
  }

  succeeded(): void {
    this.#failures = 0
    this.#isTrying = false
  }

  failed(): void {
    this.#isTrying = false
    this.#failures += 1
    const { failuresMax, firstPauseMs, pauseMaxMs } = this.#options
    if (this.#failures < failuresMax) return
    if (this.#failures === failuresMax) this.#timesOpened += 1
    const doublings = Math.min(this.#failures - failuresMax, 30)
    this.#openUntilMs = this.#clock.nowMs() + Math.min(pauseMaxMs, firstPauseMs * 2 ** doublings)
  }

  /** The trial call ended without an outcome, because its client disconnected. */
  gaveUp(): void {
    this.#isTrying = false
  }
}
