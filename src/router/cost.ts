/**
 * The cost of giving a request to one rank, in blocks; lower wins (kv-router.md section 4.2, to the letter).
 *
 *   credit = creditWeight * decay * device + hostWeight * host + diskWeight * disk + shared
 *   cost   = prefillLoadScale * max(prefill - credit, 0) + decode + requestWeight * activeRequests
 *
 * A decode worker whose prefill is not tracked has no prefill term: there the credit lowers the decode term.
 * Preferred taints multiply the result.
 */
import type { RouterOverrides } from '../request/index.ts'
import type { CostWeights } from './router-config.ts'

/** What is the same for all candidates of one decision. */
export interface CostRequest {
  readonly weights: CostWeights
  readonly blockSize: number
  readonly promptTokens: number
  readonly trackPrefill: boolean
  /** Decode workers only: see the special case above. */
  readonly isDecode: boolean
  /** Least active prefill tokens of an eligible rank; only read when there is a decay. */
  readonly minActivePrefillTokens: number
}

/** What differs from rank to rank. The object may be reused. */
export interface CostCandidate {
  deviceBlocks: number
  hostBlocks: number
  diskBlocks: number
  /** Blocks of a shared cache behind what the device holds. */
  sharedBlocks: number
  /** Prompt tokens that need not be computed, all tiers weighed. */
  cachedTokens: number
  /** False: nothing is known of the rank's load. */
  hasLoad: boolean
  activePrefillTokens: number
  activeDecodeBlocks: number
  /** Blocks that this request would add. */
  additionalBlocks: number
  activeRequests: number
}

export function newCostCandidate(): CostCandidate {
  return {
    deviceBlocks: 0,
    hostBlocks: 0,
    diskBlocks: 0,
    sharedBlocks: 0,
    cachedTokens: 0,
    hasLoad: true,
    activePrefillTokens: 0,
    activeDecodeBlocks: 0,
    additionalBlocks: 0,
    activeRequests: 0,
  }
}

export function costOf(request: CostRequest, rank: CostCandidate): number {
  const { weights } = request
  const credit = creditOf(request, rank)
  const decode = rank.activeDecodeBlocks + rank.additionalBlocks
  const requests = weights.decodeActiveRequestWeight * rank.activeRequests
  if (request.isDecode && !request.trackPrefill && weights.overlapScoreCredit > 0) {
    return Math.max(decode - credit, 0) + requests
  }
  const prefill = prefillBlocksOf(request, rank)
  return weights.prefillLoadScale * Math.max(prefill - credit, 0) + decode + requests
}

export function creditOf(request: CostRequest, rank: CostCandidate): number {
  const { weights } = request
  return (
    weights.overlapScoreCredit * decayOf(request, rank) * rank.deviceBlocks +
    weights.hostCacheHitWeight * rank.hostBlocks +
    weights.diskCacheHitWeight * rank.diskBlocks +
    weights.sharedCacheMultiplier * rank.sharedBlocks
  )
}

/** Prefill work in front of the first token, cached part included; the credit takes that off again. */
export function prefillBlocksOf(request: CostRequest, rank: CostCandidate): number {
  if (!request.trackPrefill) return 0
  const own = Math.max(request.promptTokens, rank.cachedTokens)
  const tokens = rank.hasLoad ? rank.activePrefillTokens + own : request.promptTokens
  return tokens / request.blockSize
}

/** Cached blocks count for less on a rank that has more prefill before it than the idlest one. */
export function decayOf(request: CostRequest, rank: CostCandidate): number {
  const k = request.weights.overlapScoreCreditDecay
  if (k <= 0 || !request.trackPrefill) return 1
  const ahead = Math.max(rank.activePrefillTokens - request.minActivePrefillTokens, 0)
  const promptBlocks = Math.max(Math.ceil(request.promptTokens / request.blockSize), 1)
  return 1 / (1 + (k * (ahead / request.blockSize)) / promptBlocks)
}

/** Blocks that count as cached, every tier by its weight. */
export function effectiveOverlapBlocks(
  weights: CostWeights,
  device: number,
  host: number,
  disk: number,
): number {
  return device + host * weights.hostCacheHitWeight + disk * weights.diskCacheHitWeight
}

export function cachedTokensOf(effectiveBlocks: number, blockSize: number): number {
  return Math.max(0, Math.round(effectiveBlocks * blockSize))
}

/** Of the preferred taints that a worker has: 1 without a match, never outside [1/e, e]. */
export function taintFactor(
  preferred: Readonly<Record<string, number>>,
  taints: ReadonlySet<string>,
): number {
  let sum = 0
  for (const [taint, weight] of Object.entries(preferred)) if (taints.has(taint)) sum += weight
  return Math.exp(-Math.tanh(sum))
}

/** The configured weights with what one request overrides. `overlapScoreWeight` is the older name of a scale. */
export function overrideWeights(weights: CostWeights, overrides?: RouterOverrides): CostWeights {
  if (overrides === undefined) return weights
  const {
    overlapScoreWeight,
    temperature,
    overlapScoreCredit,
    prefillLoadScale,
    sharedCacheMultiplier,
  } = overrides
  const merged = {
    ...weights,
    ...(temperature === undefined ? {} : { temperature }),
    ...(overlapScoreCredit === undefined ? {} : { overlapScoreCredit }),
    ...(prefillLoadScale === undefined ? {} : { prefillLoadScale }),
    ...(sharedCacheMultiplier === undefined ? {} : { sharedCacheMultiplier }),
  }
  if (overlapScoreWeight === undefined) return merged
  const older = { ...merged, prefillLoadScale: overlapScoreWeight }
  return overlapScoreWeight === 0 ? { ...older, overlapScoreCredit: 0 } : older
}
