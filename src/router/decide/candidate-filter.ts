/** Reduces all ranks to those that may take the request, and notes why each of the others was excluded. */
import { safeText } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import type { Candidate } from '../cost/candidate.ts'
import type { Filter } from '../cost/policy-part.ts'
import { isPromise } from '../cost/returned-promise.ts'
import type { DecisionScope, OnwardRoom, PoolParts } from './decision-scope.ts'
import { describeExclusion, exclusionOf, isUnconstrained } from './eligibility.ts'
import type { Exclusion } from './eligibility.ts'
import type { RankPricing } from './rank-pricing.ts'
import { needsDecode } from './selection.ts'

/** A limit, because a thousand identical reasons are not worth storing. */
const EXCLUSIONS_KEPT = 16

const FULL: Exclusion = { kind: 'full' }
const FULL_ONWARD: Exclusion = { kind: 'no-place-for-decode' }

export class CandidateFilter {
  readonly #pool: PoolParts
  readonly #pricing: RankPricing

  constructor(pool: PoolParts, pricing: RankPricing) {
    this.#pool = pool
    this.#pricing = pricing
  }

  /** Writes the eligible slots into `candidates` and returns their number. */
  gather(scope: DecisionScope, candidates: Int32Array): number {
    const { table, config } = this.#pool
    const { live } = table
    const isOpenToAll = isUnconstrained(scope.constraints, table) && config.filters.length === 0
    const onward = this.#onwardOf(scope)
    const isCold = this.#isCold(scope)
    if (isOpenToAll && !table.hasExclusions && onward === null && !isCold) {
      for (let i = 0; i < live.length; i++) candidates[i] = live[i] as number
      return live.length
    }
    const isClosed = (slot: number): boolean => onward?.isOpenFor(slot, scope.query.next) === false
    const isFull = (slot: number): boolean =>
      table.full[slot] === 1 || isClosed(slot) || (isCold && table.excessOf(slot) >= 1)
    let count = 0
    const fenced: number[] = []
    const full: number[] = []
    for (const slot of live) {
      const exclusion = this.exclusionOf(scope, slot)
      if (exclusion === null && isFull(slot)) full.push(slot)
      else if (exclusion === null) candidates[count++] = slot
      else {
        this.note(scope, slot, exclusion)
        if (exclusion.kind === 'fenced') fenced.push(slot)
      }
    }
    // A full rank is used only if there is no other: a request that may queue has already waited for a free
    // one.
    if (count === 0) for (const slot of full) candidates[count++] = slot
    else for (const slot of full) this.note(scope, slot, isClosed(slot) ? FULL_ONWARD : FULL)
    if (count > 0 || scope.overloadedCount > 0) return count
    scope.constraints = { ...scope.constraints, ignoresFences: true }
    for (const slot of fenced) {
      if (this.exclusionOf(scope, slot) === null) candidates[count++] = slot
    }
    return count
  }

  /** No speed is known yet: the wait for a place in a full batch cannot be weighed against other costs. */
  #isCold({ trackPrefill }: DecisionScope): boolean {
    const { config, rates } = this.#pool
    if (config.mode !== 'kv' || config.cost !== 'time' || rates.isTrusted) return false
    // Ranks that compute no prompts show only the time between tokens.
    return trackPrefill ? !rates.hasShown : rates.itlError === null
  }

  /** Null unless the KV of a prefill must stay inside a domain. */
  #onwardOf({ query }: DecisionScope): OnwardRoom | null {
    const onward = needsDecode(query) ? this.#pool.onward() : null
    return onward?.hasDomains === true ? onward : null
  }

  exclusionOf(scope: DecisionScope, slot: number): Exclusion | null {
    const { table, config } = this.#pool
    const hard = exclusionOf(table, slot, scope.constraints, scope.nowMs)
    if (hard !== null || config.filters.length === 0) return hard
    const candidate = this.#pricing.look(slot)
    for (const filter of config.filters) {
      const detail = reasonOf(filter, candidate, scope.query.request)
      if (detail !== null) return { kind: 'filtered', detail }
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

/** A filter that throws excludes the rank, because its verdict is not known. */
function reasonOf(filter: Filter, candidate: Candidate, request: GenerateRequest): string | null {
  try {
    const reason: unknown = filter(candidate, request)
    if (reason === null || typeof reason === 'string') return reason
    const shown = isPromise(reason) ? 'a promise' : typeof reason
    return `the filter returned ${shown}, expected a reason or null`
  } catch (error) {
    return `the filter threw: ${safeText(error)}`
  }
}
