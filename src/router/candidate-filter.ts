/**
 * From all ranks to those that may take the request, with a note for each of the others.
 */
import type { DecisionScope, PoolParts } from './decision-scope.ts'
import { describeExclusion, exclusionOf, isUnconstrained } from './eligibility.ts'
import type { Exclusion } from './eligibility.ts'
import type { RankPricing } from './rank-pricing.ts'

/** A thousand times the same reason is not worth keeping. */
const EXCLUSIONS_KEPT = 16

export class CandidateFilter {
  readonly #pool: PoolParts
  readonly #pricing: RankPricing

  constructor(pool: PoolParts, pricing: RankPricing) {
    this.#pool = pool
    this.#pricing = pricing
  }

  /** Writes the eligible slots into `candidates` and returns how many there are. */
  gather(scope: DecisionScope, candidates: Int32Array): number {
    const { table, config } = this.#pool
    const { live } = table
    const anybody = isUnconstrained(scope.constraints, table) && config.filters.length === 0
    if (anybody && !table.hasExclusions) {
      for (let i = 0; i < live.length; i++) candidates[i] = live[i] as number
      return live.length
    }
    let count = 0
    const fenced: number[] = []
    for (const slot of live) {
      const exclusion = this.exclusionOf(scope, slot)
      if (exclusion === null) candidates[count++] = slot
      else {
        this.note(scope, slot, exclusion)
        if (exclusion.kind === 'fenced') fenced.push(slot)
      }
    }
    if (count > 0 || scope.overloadedCount > 0) return count
    scope.constraints = { ...scope.constraints, ignoresFences: true }
    for (const slot of fenced) {
      if (this.exclusionOf(scope, slot) === null) candidates[count++] = slot
    }
    return count
  }

  exclusionOf(scope: DecisionScope, slot: number): Exclusion | null {
    const { table, config } = this.#pool
    const hard = exclusionOf(table, slot, scope.constraints, scope.nowMs)
    if (hard !== null || config.filters.length === 0) return hard
    const candidate = this.#pricing.candidate(scope, slot)
    for (const filter of config.filters) {
      const reason = filter(candidate, scope.query.request)
      if (reason !== null) return { kind: 'filtered', detail: reason }
    }
    return null
  }

  note(scope: DecisionScope, slot: number, exclusion: Exclusion): void {
    if (exclusion.kind === 'overloaded') scope.overloadedCount++
    if (scope.excluded.length >= EXCLUSIONS_KEPT) return
    const { card, dpRank } = this.#pool.table.row(slot)
    const reason = describeExclusion(exclusion)
    scope.excluded.push({ workerId: card.workerId, dpRank, reason })
  }
}
