/**
 * The cost of a decision's candidates with other weights, computed like the router does: credits are subtracted from
 * the terms that they lower, other terms are added, factors multiply.
 *
 * A record does not contain which terms are lowered; it is derived from the recorded costs.
 */
import type { DecisionRecord } from '../../router/index.ts'

export type Weights = Readonly<Record<string, number>>

type Decided = Pick<DecisionRecord, 'terms' | 'candidates'>

/** Null: the costs cannot be reproduced from the record. */
export function loweredTerms({ terms, candidates }: Decided): readonly string[] | null {
  const added = terms.filter(({ role }) => role === 'add').map(({ name }) => name)
  const tries = [[], ...added.map((name) => [name]), added]
  const weights = Object.fromEntries(terms.map(({ name, weight }) => [name, weight]))
  const fits = (lowered: readonly string[]): boolean =>
    candidates.every((_, i) => {
      const cost = costsUnder({ terms, candidates }, weights, lowered)[i] ?? 0
      const recorded = candidates[i]?.cost ?? 0
      return Math.abs(cost - recorded) <= 1e-6 * Math.max(1, Math.abs(recorded))
    })
  return tries.find(fits) ?? null
}

/** One cost per candidate, in their order. */
export function costsUnder(
  { terms, candidates }: Decided,
  weights: Weights,
  lowered: readonly string[],
): readonly number[] {
  return candidates.map(({ terms: values }) => {
    let credit = 0
    let cost = 0
    for (const { name, role, weight } of terms) {
      const value = values[name] ?? 0
      const weighed = weights[name] ?? weight
      if (role === 'credit') credit += weighed * value
      else if (role === 'factor') cost *= value
      else cost += weighed * (lowered.includes(name) ? Math.max(value - credit, 0) : value)
    }
    return cost
  })
}
