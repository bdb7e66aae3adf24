/**
 * The written side of a decision: the best candidates with every term, and the words of a refusal.
 */
import { BatonError } from '../base/index.ts'
import { creditOf, decayOf, prefillBlocksOf, taintFactor } from './cost.ts'
import type { CostCandidate, CostRequest } from './cost.ts'
import type { CandidateRecord } from './decision-record.ts'
import type { RankTable } from './rank-table.ts'
import type { SelectionQuery } from './selection.ts'

export interface CandidateNotes {
  readonly count: number
  readonly limit: number
  readonly costs: Float64Array
  readonly slots: Int32Array
  readonly table: RankTable
  readonly cost: CostRequest
  readonly preferredTaints: Readonly<Record<string, number>> | undefined
  look(slot: number): CostCandidate
  extra(slot: number): number
}

/** The cheapest `limit` candidates, best first; terms are worked out again for these only. */
export function recordCandidates(notes: CandidateNotes): CandidateRecord[] {
  return cheapest(notes.costs, notes.count, notes.limit).map((i) => {
    const slot = notes.slots[i] as number
    const { card, dpRank, taints } = notes.table.row(slot)
    const rank = notes.look(slot)
    return {
      workerId: card.workerId,
      dpRank,
      cost: notes.costs[i] as number,
      prefillBlocks: prefillBlocksOf(notes.cost, rank),
      credit: creditOf(notes.cost, rank),
      deviceBlocks: rank.deviceBlocks,
      hostBlocks: rank.hostBlocks,
      diskBlocks: rank.diskBlocks,
      decay: decayOf(notes.cost, rank),
      decodeBlocks: rank.activeDecodeBlocks + rank.additionalBlocks,
      activeRequests: rank.activeRequests,
      taintFactor:
        notes.preferredTaints === undefined ? 1 : taintFactor(notes.preferredTaints, taints),
      extra: notes.extra(slot),
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
export function refusalError(
  scope: { query: SelectionQuery; overloadedCount: number; excludedCount: number },
  summary: string,
): BatonError {
  const { phase } = scope.query
  if (scope.overloadedCount > 0) {
    return new BatonError(
      'capacity.pool_exhausted',
      `all ${phase} workers are busy, please retry later (${summary})`,
      {
        data: {
          phase,
          limit: scope.excludedCount,
          current: scope.overloadedCount,
          retryAfterMs: 1000,
        },
      },
    )
  }
  return new BatonError(
    'backend.worker_unavailable',
    summary === '' ? `no ${phase} worker is there` : `no ${phase} worker may be taken: ${summary}`,
    { data: { phase } },
  )
}
