/** The configured weights of the built-in terms, and the overrides of one request. */
import type { RouterOverrides } from '../../request/index.ts'
import { BLOCK_TERMS } from './block-terms.ts'
import type { WeightName } from './block-terms.ts'
import type { WeightOption } from './cost-term.ts'

export interface CostWeights extends Readonly<Record<WeightName, number>> {
  readonly overlapScoreCreditDecay: number
  readonly temperature: number
}

/** Every weight that is a router option, in term order. */
export const WEIGHT_OPTIONS: readonly WeightOption[] = BLOCK_TERMS.flatMap(({ weight }) =>
  weight === 1 ? [] : [weight],
)

export const DEFAULT_WEIGHTS = Object.fromEntries(
  WEIGHT_OPTIONS.map((weight) => [weight.option, weight.default]),
) as Readonly<Record<WeightName, number>>

/**
 * Applies a request's overrides. `overlapScoreWeight` is Dynamo's older name: it sets `prefillLoadScale`, and 0 also
 * disables the overlap credit.
 */
export function overrideWeights(weights: CostWeights, overrides?: RouterOverrides): CostWeights {
  if (overrides === undefined) return weights
  const given = overrides as Readonly<Record<string, unknown>>
  const merged: Record<string, number> = { ...weights }
  for (const name of ['temperature', ...WEIGHT_OPTIONS.map(({ option }) => option)]) {
    const value = given[name]
    if (typeof value === 'number') merged[name] = value
  }
  const { overlapScoreWeight } = overrides
  if (overlapScoreWeight !== undefined) {
    merged['prefillLoadScale'] = overlapScoreWeight
    if (overlapScoreWeight === 0) merged['overlapScoreCredit'] = 0
  }
  return merged as unknown as CostWeights
}
