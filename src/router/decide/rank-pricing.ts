/** Computes the cost of each rank for one request from the pool's columns. */
import type { RouterOverrides } from '../../request/index.ts'
import { CostFunction } from '../cost/cost-function.ts'
import type { CostModel, WeighedTerm } from '../cost/cost-function.ts'
import { FIRST_TOKEN, LATE } from '../cost/time-terms.ts'
import type { TransferLine } from '../load/transfer-rates.ts'
import type { CheapestRanks } from './cheapest-ranks.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'
import { addLaterCosts } from './later-pricing.ts'
import { addRisks } from './risk-pricing.ts'
import { fillTimeCosts } from './time-pricing.ts'
import { RankView } from './rank-view.ts'

export class RankPricing {
  readonly #pool: PoolParts
  readonly #view: RankView
  readonly #model: CostModel
  readonly #own: CostFunction
  /** The block cost function, for requests that override block weights while the router uses `cost: time`. */
  #blocks: CostFunction | null = null
  #cost: CostFunction
  #isPlainTime = false
  #hasUntried = false
  /** Whether predictions are so far off that this decision's costs are in blocks. */
  #arePredictionsOff = false
  readonly #one = new Int32Array(1)
  readonly #oneCost = new Float64Array(1)
  /** By slot: leading blocks of the prompt that active requests on the rank use. */
  depths = new Int32Array(0)
  /** By slot: cached tokens that the prompt would compute again. */
  again = new Float64Array(0)

  constructor(pool: PoolParts) {
    this.#pool = pool
    this.#view = new RankView(pool)
    this.#model = pool.config.cost
    this.#cost = this.#own = new CostFunction(pool.config.scorers, this.#model)
  }

  get arePredictionsOff(): boolean {
    return this.#arePredictionsOff
  }

  /** Starts a decision; must be called first. */
  begin(scope: DecisionScope): void {
    const { weights, trackPrefill, query } = scope
    const isDecode = query.phase === 'decode'
    const { overlapScoreCredit } = weights
    const { preferredTaints = {} } = query.request.routing
    this.#cost = this.#costOf(query.request.routing.overrides, trackPrefill)
    const decision = {
      isDecode,
      trackPrefill,
      overlapScoreCredit,
      hasPreferredTaints: Object.keys(preferredTaints).length > 0,
      hasLowerTiers: this.#pool.index.matches.hasLower,
      hasShared: scope.shared.length > 0,
      hasGoals: scope.goals !== null,
      hasTransfer: scope.transfer !== null,
      hasLater: scope.laterTurns > 0,
      hasUntried: trackPrefill && this.#pool.rates.untried.count > 0,
    }
    this.#cost.begin(weights, decision)
    this.#hasUntried = decision.hasUntried
    this.#isPlainTime =
      this.#model === 'time' &&
      this.#cost === this.#own &&
      this.#pool.config.scorers.length === 0 &&
      !decision.hasPreferredTaints &&
      !decision.hasLowerTiers &&
      !decision.hasShared
    this.#view.open(scope, this.depths)
  }

  /**
   * With `cost: time`, costs are in blocks until speeds have been measured, while predictions are off, and for requests
   * that set weights of blocks.
   */
  #costOf(overrides: RouterOverrides | undefined, trackPrefill: boolean): CostFunction {
    if (this.#model === 'blocks') return this.#own
    const { prefillLoadScale, overlapScoreWeight } = overrides ?? {}
    const hasWeights = prefillLoadScale !== undefined || overlapScoreWeight !== undefined
    const { rates } = this.#pool
    this.#arePredictionsOff = !hasWeights && rates.isLost
    if (!hasWeights && !rates.isLost && rates.knows(trackPrefill)) return this.#own
    return (this.#blocks ??= new CostFunction(this.#pool.config.scorers, 'blocks'))
  }

  /**
   * Writes the costs of the first `count` candidates and finds the `best` of them. If the overlap credit decays, it first
   * finds the idlest one. Without `needsAll`, the cost of a candidate that is not among the best may be too low, but is
   * still above theirs (its last terms are not computed).
   */
  price(
    scope: DecisionScope,
    candidates: Int32Array,
    count: number,
    costs: Float64Array,
    best: CheapestRanks,
    needsAll: boolean,
  ): void {
    const { activePrefillTokens } = this.#pool.table
    if (scope.weights.overlapScoreCreditDecay > 0 && scope.trackPrefill) {
      let least = Infinity
      for (let i = 0; i < count; i++) {
        least = Math.min(least, activePrefillTokens[candidates[i] as number] as number)
      }
      scope.minActivePrefillTokens = least
      this.#view.open(scope, this.depths)
    }
    if (!this.#isPlainTime) {
      this.#cost.fill(this.#view, candidates, count, scope.query.request, costs)
      best.offerAll(costs, count)
      return
    }
    const output = this.#view.expectedOutputTokens
    this.#pool.rows.refresh()
    costs.fill(0, 0, count)
    addLaterCosts(this.#pool, scope, candidates, count, costs)
    if (scope.transfer !== null) this.#addTransfers(scope.transfer, candidates, count, costs)
    if (scope.goals !== null) this.#addLateness(candidates, count, costs)
    if (this.#hasUntried) addRisks(this.#pool, scope, candidates, count, costs)
    const kept = needsAll ? null : best
    fillTimeCosts(this.#pool, scope, this.depths, output, candidates, count, costs, kept)
    if (needsAll) best.offerAll(costs, count)
  }

  #addTransfers(
    line: TransferLine,
    candidates: Int32Array,
    count: number,
    costs: Float64Array,
  ): void {
    const { table, index } = this.#pool
    const { device } = index.matches
    const { promptTokens, blockSize, phase } = this.#view
    for (let i = 0; i < count; i++) {
      const slot = candidates[i] as number
      const held = phase === 'prefill' ? 0 : (device[slot] as number) * blockSize
      const moved = Math.max(promptTokens - held, 0)
      const lineMs = line.startMs + line.msPerToken * moved
      const factor = line.factorTo(table.row(slot).card.workerId)
      costs[i] = (costs[i] as number) + FIRST_TOKEN * factor * lineMs
    }
  }

  #addLateness(candidates: Int32Array, count: number, costs: Float64Array): void {
    for (let i = 0; i < count; i++) {
      this.#view.moveTo(candidates[i] as number)
      costs[i] = (costs[i] as number) + LATE * this.#view.goalLateMs
    }
  }

  /** The view of one rank; valid until the next call. */
  look(slot: number): RankView {
    this.#view.moveTo(slot)
    return this.#view
  }

  costAt(scope: DecisionScope, slot: number): number {
    this.#one[0] = slot
    this.#cost.fill(this.#view, this.#one, 1, scope.query.request, this.#oneCost)
    return this.#oneCost[0] as number
  }

  /** The terms of the current decision with their weights. */
  get terms(): readonly WeighedTerm[] {
    return this.#cost.terms
  }

  valuesAt(scope: DecisionScope, slot: number): readonly number[] {
    return this.#cost.valuesOf(this.look(slot), scope.query.request)
  }
}
