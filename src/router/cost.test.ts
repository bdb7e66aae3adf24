import { readFileSync } from 'node:fs'

import { describe, expect, it } from 'vitest'

import { costOf, newCostCandidate, overrideWeights, taintFactor } from './cost.ts'
import type { CostWeights } from './router-config.ts'

interface RankRow {
  worker: number
  dp_rank: number
  device_overlap_blocks?: number
  host_overlap_blocks?: number
  disk_overlap_blocks?: number
  host_pinned_overlap_blocks?: number
  effective_overlap_blocks?: number
  effective_cached_tokens?: number
  taints?: string[]
  load?: {
    active_prefill_tokens: number
    active_decode_blocks: number
    active_requests: number
    additional_active_blocks: number
  }
}
interface Case {
  case: number
  worker_type: string
  block_size: number
  isl_tokens: number
  track_prefill_tokens: boolean
  config: Record<string, number | string | null>
  override?: Record<string, number | boolean>
  shared_cache_ranges?: [number, number][]
  preferred_taints?: Record<string, number>
  workers: RankRow[]
  costs: { worker: number; dp_rank: number; cost: number }[]
}

const file = new URL('../../test/vectors/router-selector.json', import.meta.url)
const { rows: cases } = JSON.parse(readFileSync(file, 'utf8')) as { rows: Case[] }

function weightsOf({ config, override }: Case): CostWeights {
  const number = (name: string): number => Number(override?.[name] ?? config[name] ?? 0)
  return {
    overlapScoreCredit: number('overlap_score_credit'),
    overlapScoreCreditDecay: number('overlap_score_credit_decay'),
    prefillLoadScale: number('prefill_load_scale'),
    decodeActiveRequestWeight: number('decode_active_request_weight'),
    hostCacheHitWeight: number('host_cache_hit_weight'),
    diskCacheHitWeight: number('disk_cache_hit_weight'),
    sharedCacheMultiplier: number('shared_cache_multiplier'),
    temperature: 0,
  }
}

describe('cost', () => {
  it.each(cases.map((row) => [row.case, row] as const))(
    'vector %i - every eligible rank',
    (_, row) => {
      const track = Boolean(row.override?.['track_prefill_tokens'] ?? row.track_prefill_tokens)
      const isEligible = (rank: RankRow): boolean =>
        row.costs.some((cost) => cost.worker === rank.worker && cost.dp_rank === rank.dp_rank)
      const eligible = row.workers.filter(isEligible)
      const minActivePrefillTokens = Math.min(
        ...eligible.map((rank) => rank.load?.active_prefill_tokens ?? 0),
      )
      const hasTiers = row.workers.some(
        (rank) =>
          rank.device_overlap_blocks ?? rank.host_overlap_blocks ?? rank.disk_overlap_blocks,
      )
      for (const rank of eligible) {
        const device = hasTiers
          ? (rank.device_overlap_blocks ?? 0)
          : (rank.effective_overlap_blocks ?? 0)
        const shared = (row.shared_cache_ranges ?? []).reduce(
          (sum, [start, end]) => sum + Math.max(end - Math.max(start, Math.round(device)), 0),
          0,
        )
        const view = {
          ...newCostCandidate(),
          deviceBlocks: device,
          hostBlocks: rank.host_overlap_blocks ?? rank.host_pinned_overlap_blocks ?? 0,
          diskBlocks: rank.disk_overlap_blocks ?? 0,
          sharedBlocks: shared,
          cachedTokens: rank.effective_cached_tokens ?? 0,
          hasLoad: rank.load !== undefined,
          activePrefillTokens: rank.load?.active_prefill_tokens ?? 0,
          activeDecodeBlocks: rank.load?.active_decode_blocks ?? 0,
          additionalBlocks: rank.load?.additional_active_blocks ?? 0,
          activeRequests: rank.load?.active_requests ?? 0,
        }
        const request = {
          weights: weightsOf(row),
          blockSize: row.block_size,
          promptTokens: row.isl_tokens,
          trackPrefill: track,
          isDecode: row.worker_type === 'decode',
          minActivePrefillTokens,
        }
        const factor = taintFactor(row.preferred_taints ?? {}, new Set(rank.taints ?? []))
        const expected = row.costs.find(
          (cost) => cost.worker === rank.worker && cost.dp_rank === rank.dp_rank,
        )
        expect(costOf(request, view) * factor).toBeCloseTo(expected?.cost ?? NaN, 9)
      }
    },
  )

  it('older weight - sets the prefill scale, and 0 takes the credit away too', () => {
    const weights = weightsOf(cases[0] as Case)
    expect(overrideWeights(weights, { overlapScoreWeight: 3 }).prefillLoadScale).toBe(3)
    const none = overrideWeights(weights, { overlapScoreWeight: 0 })
    expect([none.prefillLoadScale, none.overlapScoreCredit]).toEqual([0, 0])
  })
})
