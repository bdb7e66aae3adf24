/**
 * The price of each rank for one request: the pool's columns, seen through the cost function.
 */
import { CostFunction } from '../cost/cost-function.ts'
import type { WeighedTerm } from '../cost/cost-function.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'
import { RankView } from './rank-view.ts'

export class RankPricing {
  readonly #pool: PoolParts
  readonly #view: RankView
  readonly #cost: CostFunction
  readonly #one = new Int32Array(1)
  readonly #oneCost = new Float64Array(1)
  /** Blocks of the prompt that are active on each slot. */
  depths = new Int32Array(0)

  constructor(pool: PoolParts) {
    this.#pool = pool
    this.#view = new RankView(pool)
    this.#cost = new CostFunction(pool.config.scorers, pool.config.cost)
  }

  /** Before anything else is asked about a decision. */
  begin(scope: DecisionScope): void {
    const { weights, trackPrefill, query } = scope
    const isDecode = query.phase === 'decode'
    const { overlapScoreCredit } = weights
    const { preferredTaints = {} } = query.request.routing
    this.#cost.begin(weights, {
      isDecode,
      trackPrefill,
      overlapScoreCredit,
      hasPreferredTaints: Object.keys(preferredTaints).length > 0,
      hasLowerTiers: this.#pool.index.matches.hasLower,
      hasShared: scope.shared.length > 0,
    })
    this.#view.open(scope, this.depths)
  }

  /** Fills `costs` for the first `count` candidates; with a decay it first finds the idlest of them. */
  price(scope: DecisionScope, candidates: Int32Array, count: number, costs: Float64Array): void {
    const { activePrefillTokens } = this.#pool.table
    if (scope.weights.overlapScoreCreditDecay > 0 && scope.trackPrefill) {
      let least = Infinity
      for (let i = 0; i < count; i++) {
        least = Math.min(least, activePrefillTokens[candidates[i] as number] as number)
      }
      scope.minActivePrefillTokens = least
      this.#view.open(scope, this.depths)
    }
    this.#cost.fill(this.#view, candidates, count, scope.query.request, costs)
  }

  /** The view, moved to one rank; good until the next call. */
  look(slot: number): RankView {
    this.#view.moveTo(slot)
    return this.#view
  }

  costAt(scope: DecisionScope, slot: number): number {
    this.#one[0] = slot
    this.#cost.fill(this.#view, this.#one, 1, scope.query.request, this.#oneCost)
    return this.#oneCost[0] as number
  }

  /** The terms of the decision at hand, with their weights. */
  get terms(): readonly WeighedTerm[] {
    return this.#cost.terms
  }

  valuesAt(scope: DecisionScope, slot: number): readonly number[] {
    return this.#cost.valuesOf(this.look(slot), scope.query.request)
  }
}
