/**
 * What a pool says to requests with latency goals: when they have to be sent, and that no worker can keep a goal.
 */
import type { BatonError, Clock } from '../../base/index.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { RankRates } from '../load/rank-rates.ts'
import { awaitsFirstToken } from './goals-left.ts'
import { LateProbe } from './late-probe.ts'
import type { Refusal, SelectionQuery } from './selection.ts'

export interface GoalGateParts {
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

  /** Requests are refused by what is predicted. */
  get refuses(): boolean {
    const { config, rates } = this.#parts
    return config.refuseLateGoals && config.cost === 'time' && rates.isTrusted && rates.hasShown
  }

  /**
   * The refusal of a request whose goals no rank is predicted to meet, after a wait before it is sent; null: some may.
   *
   * What is refused teaches nothing: where no first token has come for a while, one goes on, to see whether it is still so.
   */
  lateRefusal(query: SelectionQuery, waitMs: number): BatonError | null {
    if (!this.refuses) return null
    const { rates, clock, lateRefusal, onRefused } = this.#parts
    const answer = lateRefusal(query, waitMs)
    if (answer === null || this.#probe.isDue(rates.firstTokens, clock.nowMs())) return null
    onRefused(answer)
    return answer.error
  }

  /** When a request has to be sent to have its first token in time, if it then fares as others do; null: any time will do. */
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
