/**
 * The written side of a decision: the record, the best candidates with every term, and the words of a refusal.
 */
import { BatonError } from '../base/index.ts'
import { excessOf } from './busy-threshold.ts'
import type { Overload } from './busy-threshold.ts'
import { creditOf, decayOf, prefillBlocksOf, taintFactor } from './cost.ts'
import type { CandidateRecord, DecisionRecord } from './decision-record.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'
import { describeExclusion } from './eligibility.ts'
import type { Exclusion } from './eligibility.ts'
import type { Pin } from './pin.ts'
import type { RankPricing } from './rank-pricing.ts'
import type { RankTable } from './rank-table.ts'

interface PricedRanks {
  readonly count: number
  readonly limit: number
  readonly costs: Float64Array
  readonly slots: Int32Array
  readonly table: RankTable
  readonly pricing: RankPricing
}

export function recordDecision(
  { config, clock, table }: PoolParts,
  scope: DecisionScope,
  ranksEligible: number,
  candidates: readonly CandidateRecord[],
  outcome: DecisionRecord['outcome'],
): DecisionRecord {
  const { request, phase, queuedMs, note } = scope.query
  const record = {
    requestId: request.requestId,
    phase,
    atMs: scope.nowMs,
    atEpochMs: clock.epochMs(),
    mode: config.mode,
    promptTokens: scope.cost.promptTokens,
    promptBlocks: scope.promptBlocks,
    queuedMs,
    ranksSeen: table.live.length,
    ranksEligible,
    candidates,
    excluded: scope.excluded,
    outcome,
  }
  return note === undefined ? record : { ...record, disaggregation: note }
}

/** The cheapest `limit` candidates, best first; terms are worked out again for these only. */
export function recordCandidates(scope: DecisionScope, ranks: PricedRanks): CandidateRecord[] {
  const { cost, query } = scope
  const preferred = query.request.routing.preferredTaints
  return cheapest(ranks.costs, ranks.count, ranks.limit).map((i) => {
    const slot = ranks.slots[i] as number
    const { card, dpRank, taints } = ranks.table.row(slot)
    const rank = ranks.pricing.look(scope, slot)
    return {
      workerId: card.workerId,
      dpRank,
      cost: ranks.costs[i] as number,
      prefillBlocks: prefillBlocksOf(cost, rank),
      credit: creditOf(cost, rank),
      deviceBlocks: rank.deviceBlocks,
      hostBlocks: rank.hostBlocks,
      diskBlocks: rank.diskBlocks,
      sharedBlocks: rank.sharedBlocks,
      decay: decayOf(cost, rank),
      decodeBlocks: rank.activeDecodeBlocks + rank.additionalBlocks,
      activeRequests: rank.activeRequests,
      taintFactor: preferred === undefined ? 1 : taintFactor(preferred, taints),
      extra: ranks.pricing.extra(scope, slot),
    }
  })
}

/** Indexes of the lowest costs in ascending order, by insertion into a short list. */
function cheapest(costs: Float64Array, count: number, limit: number): number[] {
  const best: number[] = []
  if (limit === 0) return best
  for (let i = 0; i < count; i++) {
    const cost = costs[i] as number
    if (best.length === limit) {
      if (cost >= (costs[best[limit - 1] as number] as number)) continue
      best.pop()
    }
    let at = best.length
    while (at > 0 && (costs[best[at - 1] as number] as number) > cost) at--
    best.splice(at, 0, i)
  }
  return best
}

/** Nobody is left: all too busy, or nobody at all. */
export function refusalError(pool: PoolParts, scope: DecisionScope): BatonError {
  const { phase } = scope.query
  const summary = summaryOf(scope)
  if (scope.overloadedCount > 0) {
    const message = `all ${phase} workers are busy, please retry later (${summary})`
    const data = { phase, ...leastOverload(pool, pool.table.live), retryAfterMs: RETRY_AFTER_MS }
    return new BatonError('capacity.pool_exhausted', message, { data })
  }
  return new BatonError(
    'backend.worker_unavailable',
    summary === '' ? `no ${phase} worker is there` : `no ${phase} worker may be taken: ${summary}`,
    { data: { phase } },
  )
}

/** The one worker that was asked for cannot be taken. */
export function exactRefusal(
  pool: PoolParts,
  scope: DecisionScope,
  { workerId }: Pin,
  exclusion: Exclusion,
  why: string,
): BatonError {
  const { phase } = scope.query
  const isBusy = exclusion.kind === 'overloaded'
  const load = isBusy
    ? {
        ...leastOverload(pool, pool.table.slotsOf(workerId)),
        retryAfterMs: RETRY_AFTER_MS,
      }
    : {}
  return new BatonError(
    isBusy ? 'capacity.worker_overloaded' : 'backend.worker_unavailable',
    `${phase} worker ${workerId} (${why}) cannot be taken: ${describeExclusion(exclusion)}`,
    { data: { phase, workerId, reason: exclusion.kind, ...load } },
  )
}

const RETRY_AFTER_MS = 1000

/** Of the rank that is least over its limit: the first that will have room. */
function leastOverload({ table, busy }: PoolParts, slots: readonly number[]): Partial<Overload> {
  const overloads = slots
    .filter((slot) => table.overloaded[slot] === 1)
    .flatMap((slot) => table.overloadOf(slot, busy()) ?? [])
  return overloads.sort((a, b) => excessOf(a) - excessOf(b))[0] ?? {}
}

function summaryOf({ excluded }: DecisionScope): string {
  const counts = new Map<string, number>()
  for (const { reason } of excluded) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  return [...counts].map(([reason, count]) => `${count} ${reason}`).join(', ')
}
