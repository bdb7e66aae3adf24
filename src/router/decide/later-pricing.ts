/**
 * The term `later` of `cost: time` (later turns of the session) for many ranks in one pass; a test compares it with
 * the term itself. Also computes the two inputs that only this term has.
 */
import { FIRST_TOKEN } from '../cost/time-terms.ts'
import type { LaterTurns, Turn } from '../load/later-turns.ts'
import type { RankRates } from '../load/rank-rates.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'

/** Expected number of sessions whose next turn goes to the rank, without the requesting session. */
export function boundAt(turns: LaterTurns, turn: Turn, slot: number): number {
  const own = turns.slotOf(turn) === slot ? turns.weightOf(turn) : 0
  return Math.max((turns.bound[slot] as number) - own, 0)
}

/** Share of a session's turn cycle during which one of its requests is running. */
export function busyShare(rates: RankRates, turns: LaterTurns, promptTokens: number): number {
  const { stepMs, stepMsPerRequest, stepMsPerContextToken, outputTokens } = rates
  const step = stepMs + stepMsPerRequest + stepMsPerContextToken * promptTokens
  return Math.min((outputTokens * step) / Math.max(turns.cycleMs, 1), 1)
}

export function addLaterCosts(
  { rates, turns }: PoolParts,
  { turn, laterTurns, promptTokens }: DecisionScope,
  slots: Int32Array,
  count: number,
  costs: Float64Array,
): void {
  if (turn === null || laterTurns === 0) return
  const { bound, newTokens } = turns
  const { outputTokens, prefillFactor, stepFactor } = rates
  const promptMs = rates.prefillMs + rates.msPerToken * newTokens
  const slowerMs = rates.stepMsPerRequest + rates.stepMsPerContextToken * promptTokens
  const decodeMs = outputTokens * (rates.stepMs + slowerMs)
  const share = 2 * busyShare(rates, turns, promptTokens)
  const [own, ownWeight] = [turns.slotOf(turn), turns.weightOf(turn)]
  for (let i = 0; i < count; i++) {
    const slot = slots[i] as number
    const sessions = (bound[slot] as number) - (slot === own ? ownWeight : 0)
    const others = sessions > 0 ? share * sessions : 0
    const speed = prefillFactor[slot] as number
    const pace = stepFactor[slot] as number
    costs[i] =
      (costs[i] as number) +
      laterTurns *
        (speed * promptMs * (FIRST_TOKEN + others) +
          pace * (decodeMs + others * outputTokens * slowerMs))
  }
}
