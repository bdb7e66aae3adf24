/**
 * The price of each rank for one request: the pool's columns, seen through the cost function and the user's scorers.
 *
 * The view is one object that is set to rank after rank, so that pricing a thousand ranks allocates nothing.
 */
import {
  cachedTokensOf,
  costOf,
  effectiveOverlapBlocks,
  newCostCandidate,
  taintFactor,
} from './cost.ts'
import type { CostCandidate } from './cost.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'
import type { BlockRange, Candidate } from './policy-part.ts'
import type { CostWeights } from './router-config.ts'

export class RankPricing {
  readonly #pool: PoolParts
  readonly #view = newCostCandidate()
  /** Blocks of the prompt that are active on each slot. */
  depths = new Int32Array(0)

  constructor(pool: PoolParts) {
    this.#pool = pool
  }

  /** Fills `costs` for the first `count` candidates; with a decay it first finds the idlest of them. */
  price(scope: DecisionScope, candidates: Int32Array, count: number, costs: Float64Array): void {
    const { config, table } = this.#pool
    const { weights, trackPrefill } = scope.cost
    if (weights.overlapScoreCreditDecay > 0 && trackPrefill) {
      let least = Infinity
      for (let i = 0; i < count; i++) {
        least = Math.min(least, table.activePrefillTokens[candidates[i] as number] as number)
      }
      scope.cost = { ...scope.cost, minActivePrefillTokens: least }
    }
    const { cost } = scope
    const preferred = scope.query.request.routing.preferredTaints
    const hasTaints = preferred !== undefined && Object.keys(preferred).length > 0
    const hasScorers = config.scorers.length > 0
    const columns = this.#columns(scope)
    const view = this.#view
    for (let i = 0; i < count; i++) {
      const slot = candidates[i] as number
      setView(view, columns, slot)
      let value = costOf(cost, view)
      if (hasTaints) value *= taintFactor(preferred, table.row(slot).taints)
      if (hasScorers) value += this.extra(scope, slot)
      costs[i] = value
    }
  }

  /** The view, set to one rank; good until the next call. */
  look(scope: DecisionScope, slot: number): CostCandidate {
    setView(this.#view, this.#columns(scope), slot)
    return this.#view
  }

  #columns({ cost, trackedBlocks, shared }: DecisionScope): Columns {
    const { table, index } = this.#pool
    const { device, host, disk } = index.matches
    const { activePrefillTokens, activeDecodeBlocks, activeRequests } = table
    const { depths } = this
    return {
      device,
      host,
      disk,
      activePrefillTokens,
      activeDecodeBlocks,
      activeRequests,
      depths,
      trackedBlocks,
      shared,
      weights: cost.weights,
      blockSize: cost.blockSize,
    }
  }

  /** Sum of the user's scorers. */
  extra(scope: DecisionScope, slot: number): number {
    const { scorers } = this.#pool.config
    if (scorers.length === 0) return 0
    const candidate = this.candidate(scope, slot)
    return scorers.reduce((sum, one) => sum + one.score(candidate, scope.query.request), 0)
  }

  candidate(scope: DecisionScope, slot: number): Candidate {
    const { table, index } = this.#pool
    const { card, dpRank } = table.row(slot)
    return {
      card,
      dpRank,
      activePrefillTokens: table.activePrefillTokens[slot] as number,
      activeDecodeBlocks: table.activeDecodeBlocks[slot] as number,
      activeRequests: table.activeRequests[slot] as number,
      overlapBlocks: index.matches.device[slot] as number,
      promptBlocks: scope.promptBlocks,
    }
  }
}

/** The columns of a decision at hand, so that the loop reads arrays and nothing else. */
interface Columns {
  readonly device: Int32Array
  readonly host: Int32Array
  readonly disk: Int32Array
  readonly activePrefillTokens: Float64Array
  readonly activeDecodeBlocks: Float64Array
  readonly activeRequests: Int32Array
  readonly depths: Int32Array
  readonly trackedBlocks: number
  readonly shared: readonly BlockRange[]
  readonly weights: CostWeights
  readonly blockSize: number
}

function setView(view: CostCandidate, columns: Columns, slot: number): void {
  const device = columns.device[slot] as number
  const host = columns.host[slot] as number
  const disk = columns.disk[slot] as number
  view.deviceBlocks = device
  view.hostBlocks = host
  view.diskBlocks = disk
  view.sharedBlocks = columns.shared.length === 0 ? 0 : blocksBehind(columns.shared, device)
  const effective = effectiveOverlapBlocks(columns.weights, device, host, disk)
  view.cachedTokens = effective === 0 ? 0 : cachedTokensOf(effective, columns.blockSize)
  view.activePrefillTokens = columns.activePrefillTokens[slot] as number
  view.activeDecodeBlocks = Math.round(columns.activeDecodeBlocks[slot] as number)
  view.activeRequests = columns.activeRequests[slot] as number
  view.additionalBlocks = Math.max(columns.trackedBlocks - (columns.depths[slot] as number), 0)
}

/** Blocks of the ranges that lie behind the first `from`. */
function blocksBehind(ranges: readonly BlockRange[], from: number): number {
  let blocks = 0
  for (const [start, end] of ranges) blocks += Math.max(0, end - Math.max(start, from))
  return blocks
}
