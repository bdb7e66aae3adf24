/**
 * What the next turns of a session take where this one goes: the term `later` of `cost: time` for many ranks in one pass
 * (a test compares them), and the two figures that it has of its own.
 */
import { FIRST_TOKEN } from '../cost/time-terms.ts'
import type { LaterTurns, Turn } from '../load/later-turns.ts'
import type { RankRates } from '../load/rank-rates.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'

/** Sessions whose next turn is expected at the rank, without the one that asks. */
export function boundAt(turns: LaterTurns, turn: Turn, slot: number): number {
  const own = turns.slotOf(turn) === slot ? turns.weightOf(turn) : 0
  return Math.max((turns.bound[slot] as number) - own, 0)
}

/** Of the time from one turn to the next one, what a request is under way. */
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
