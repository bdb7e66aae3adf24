/**
 * The term `risk` of `cost: time`: a rank without measurements may be much slower than the others. While its first prompt
 * is late, the rank is at least as slow as that shows; a second prompt would take as long.
 */
import { FIRST_TOKEN } from '../cost/time-terms.ts'
import type { RankBacklog } from '../load/rank-backlog.ts'
import type { RankRates } from '../load/rank-rates.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'

export function riskAt(
  rates: RankRates,
  backlog: RankBacklog,
  slot: number,
  uncachedTokens: number,
  nowMs: number,
): number {
  if (!rates.untried.has(slot)) return 0
  return backlog.lateness(slot, nowMs) * rates.ttftMs(slot, uncachedTokens)
}

export function addRisks(
  { index, rates, backlog }: PoolParts,
  { promptTokens, blockSize, again, nowMs }: DecisionScope,
  slots: Int32Array,
  count: number,
  costs: Float64Array,
): void {
  const { device } = index.matches
  for (let i = 0; i < count; i++) {
    const slot = slots[i] as number
    const cached = (device[slot] as number) * blockSize - (again[slot] as number)
    const uncached = Math.max(promptTokens - cached, 0)
    costs[i] = (costs[i] as number) + FIRST_TOKEN * riskAt(rates, backlog, slot, uncached, nowMs)
  }
}
