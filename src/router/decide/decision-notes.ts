/** Writes a decision down: the record, the best candidates with every term, and the text of a refusal. */
import { BatonError } from '../../base/index.ts'
import { excessOf } from '../configuration/busy-threshold.ts'
import type { Overload } from '../configuration/busy-threshold.ts'
import type { CheapestRanks } from './cheapest-ranks.ts'
import { PricedCandidate } from './decision-record.ts'
import type { DecisionRecord } from './decision-record.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'
import { describeExclusion } from './eligibility.ts'
import type { Exclusion } from './eligibility.ts'
import type { Pin } from './pin.ts'
import type { RankPricing } from './rank-pricing.ts'
import type { RankTable } from '../ranks/rank-table.ts'

interface PricedRanks {
  readonly best: CheapestRanks
  readonly limit: number
  readonly costs: Float64Array
  readonly slots: Int32Array
  readonly table: RankTable
  readonly pricing: RankPricing
}

/** The priced part of a record: the best candidates and the weights of the terms. */
type PricedCandidates = Pick<DecisionRecord, 'terms' | 'candidates'>

export const NOT_PRICED: PricedCandidates = { terms: [], candidates: [] }

export function recordDecision(
  { config, clock, table }: PoolParts,
  scope: DecisionScope,
  ranksEligible: number,
  { terms, candidates }: PricedCandidates,
  outcome: DecisionRecord['outcome'],
): DecisionRecord {
  const { request, phase, queuedMs, note } = scope.query
  return {
    requestId: request.requestId,
    phase,
    atMs: scope.nowMs,
    atEpochMs: clock.epochMs(),
    mode: config.mode,
    promptTokens: scope.promptTokens,
    promptBlocks: scope.promptBlocks,
    queuedMs,
    ranksSeen: table.live.length,
    ranksEligible,
    terms,
    candidates,
    excluded: scope.excluded,
    outcome,
    ...(note === undefined ? {} : { disaggregation: note }),
  }
}

/** The cheapest candidates, best first, at most `limit`. Only for these the term values are computed again. */
export function recordCandidates(scope: DecisionScope, ranks: PricedRanks): PricedCandidates {
  const { best, limit, pricing } = ranks
  const { terms } = pricing
  const count = Math.min(best.count, limit)
  const candidates: PricedCandidate[] = []
  for (let place = 0; place < count; place++) {
    const i = best.indexAt(place)
    const slot = ranks.slots[i] as number
    const { card, dpRank } = ranks.table.row(slot)
    const rank = { workerId: card.workerId, dpRank, cost: ranks.costs[i] as number }
    candidates.push(new PricedCandidate(rank, terms, pricing.valuesAt(scope, slot)))
  }
  return { terms, candidates }
}

/** The error when no rank can be chosen: all are overloaded, or none is eligible or registered. */
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
    summary === ''
      ? `no ${phase} worker is registered`
      : `no ${phase} worker may be taken: ${summary}`,
    { data: { phase } },
  )
}

/** The error when the worker that the request names cannot be chosen. */
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

/** The overload of the rank that exceeds its threshold least, since that one will have capacity first. */
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
