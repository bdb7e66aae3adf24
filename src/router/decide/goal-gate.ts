/**
 * Latency goals at the queue of a pool: the latest time at which a request must be sent, and the refusal if no worker
 * can meet a goal.
 */
import type { BatonError, Clock } from '../../base/index.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { RankRates } from '../load/rank-rates.ts'
import { awaitsFirstToken } from './goals-left.ts'
import { LateProbe } from './late-probe.ts'
import type { Refusal, SelectionQuery } from './selection.ts'

interface GoalGateParts {
  readonly config: RouterConfig
  readonly clock: Clock
  readonly rates: RankRates
  readonly lateRefusal: (query: SelectionQuery, waitMs: number) => Refusal | null
  readonly onRefused: (refusal: Refusal) => void
}

export class GoalGate {
  readonly #parts: GoalGateParts
  readonly #probe = new LateProbe()

  constructor(parts: GoalGateParts) {
    this.#parts = parts
  }

  /** True if requests are refused by predictions: configured, and the predictions are reliable. */
  get refuses(): boolean {
    const { config, rates } = this.#parts
    return config.refuseLateGoals && config.cost === 'time' && rates.isTrusted && rates.hasShown
  }

  /**
   * The refusal of a request whose goals no rank is predicted to meet after waiting `waitMs`; null if some rank may.
   *
   * A refused request yields no measurement. If no first token has arrived for a while, one request is let through as
   * a probe.
   */
  lateRefusal(query: SelectionQuery, waitMs: number): BatonError | null {
    if (!this.refuses) return null
    const { rates, clock, lateRefusal, onRefused } = this.#parts
    const answer = lateRefusal(query, waitMs)
    if (answer === null || this.#probe.isDue(rates.firstTokens, clock.nowMs())) return null
    onRefused(answer)
    return answer.error
  }

  /**
   * The latest time at which a request must be sent to get its first token in time, given the pool's usual
   * first-token time; null if it has no such goal.
   */
  latestStartMs({ request, queuedMs }: SelectionQuery, uncachedTokens: number): number | null {
    const { goals } = request.routing
    if (goals?.ttftMs === undefined || !awaitsFirstToken(request)) return null
    const { rates, clock } = this.#parts
    const nowMs = clock.nowMs()
    const dueMs = goals.firstTokenByMs ?? nowMs - queuedMs + goals.ttftMs
    if (!rates.isTrusted) return dueMs
    return dueMs - rates.idleTtftMs(uncachedTokens) - rates.insideMs
  }
}
