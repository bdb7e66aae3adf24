import { readFileSync } from 'node:fs'

import { describe, expect, it } from 'vitest'

import { card, request } from '../../../test/router/scripted-plane.ts'
import { taintFactor } from '../decide/rank-view.ts'
import type { Candidate } from './candidate.ts'
import { CostFunction } from './cost-function.ts'
import type { CostTerm, DecisionKind } from './cost-term.ts'
import { DEFAULT_WEIGHTS, overrideWeights } from './weights.ts'
import type { CostWeights } from './weights.ts'

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

const file = new URL('../../../test/vectors/router-selector.json', import.meta.url)
const { rows: cases } = JSON.parse(readFileSync(file, 'utf8')) as { rows: Case[] }

const CANDIDATE: Candidate = {
  firstRequests: 0,
  joinShare: 0,
  promptShare: 0,
  predictedTtftMs: 0,
  predictedItlMs: 0,
  goalLateMs: 0,
  transferMs: 0,
  riskMs: 0,
  laterTurns: 0,
  laterTokens: 0,
  boundRequests: 0,
  card: card(1),
  dpRank: 0,
  taints: new Set(),
  phase: 'aggregated',
  promptTokens: 64,
  promptBlocks: 4,
  blockSize: 16,
  queuedMs: 0,
  deviceBlocks: 0,
  hostBlocks: 0,
  diskBlocks: 0,
  sharedBlocks: 0,
  cachedTokens: 0,
  decay: 1,
  tracksPrefill: true,
  activePrefillTokens: 0,
  activeDecodeBlocks: 0,
  additionalBlocks: 0,
  activeRequests: 0,
  queuedRequests: 0,
  totalBlocks: null,
  maxBatchedTokens: 8192,
  holdsSession: false,
  taintFactor: 1,
  msPerPromptToken: 0.1,
  prefillMs: 5,
  stepMs: 10,
  waitMs: 0,
  placeMs: 0,
  waitingRequests: 0,
  runningRequests: 0,
  contextTokens: 0,
  stepMsPerRequest: 0.1,
  stepMsPerContextToken: 0,
  stepShare: 1,
  restMs: 0,
  promptsBehind: 0,
  usualOutputTokens: 128,
  reuseShare: 0,
  expectedOutputTokens: 128,
}

const DECISION: DecisionKind = {
  isDecode: false,
  trackPrefill: true,
  overlapScoreCredit: 1,
  hasPreferredTaints: true,
  hasLowerTiers: true,
  hasShared: true,
  hasGoals: false,
  hasTransfer: false,
  hasUntried: false,
  hasLater: false,
}

function costOf(
  own: readonly CostTerm[],
  weights: CostWeights,
  candidate: Candidate,
  decision: DecisionKind = DECISION,
): number {
  const cost = new CostFunction(own)
  cost.begin(weights, decision)
  const costs = new Float64Array(1)
  const view = { ...candidate, moveTo: () => undefined }
  cost.fill(view, new Int32Array(1), 1, request(1), costs)
  return costs[0] ?? NaN
}

function weightsOf({ config, override }: Case): CostWeights {
  const number = (name: string): number => Number(override?.[name] ?? config[name] ?? 0)
  return {
    ...DEFAULT_WEIGHTS,
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
        const load = rank.load?.active_prefill_tokens ?? 0
        const weights = weightsOf(row)
        const promptBlocks = Math.max(Math.ceil(row.isl_tokens / row.block_size), 1)
        const ahead = Math.max(load - minActivePrefillTokens, 0) / row.block_size / promptBlocks
        const candidate = {
          ...CANDIDATE,
          taintFactor: taintFactor(row.preferred_taints ?? {}, new Set(rank.taints ?? [])),
          decay: track ? 1 / (1 + weights.overlapScoreCreditDecay * ahead) : 1,
          blockSize: row.block_size,
          promptTokens: row.isl_tokens,
          tracksPrefill: track,
          deviceBlocks: device,
          hostBlocks: rank.host_overlap_blocks ?? rank.host_pinned_overlap_blocks ?? 0,
          diskBlocks: rank.disk_overlap_blocks ?? 0,
          sharedBlocks: shared,
          cachedTokens: rank.load === undefined ? 0 : (rank.effective_cached_tokens ?? 0),
          activePrefillTokens: load,
          activeDecodeBlocks: rank.load?.active_decode_blocks ?? 0,
          additionalBlocks: rank.load?.additional_active_blocks ?? 0,
          activeRequests: rank.load?.active_requests ?? 0,
        }
        const decision = {
          ...DECISION,
          trackPrefill: track,
          isDecode: row.worker_type === 'decode',
          overlapScoreCredit: weights.overlapScoreCredit,
        }
        const expected = row.costs.find(
          (cost) => cost.worker === rank.worker && cost.dp_rank === rank.dp_rank,
        )
        expect(costOf([], weights, candidate, decision)).toBeCloseTo(expected?.cost ?? NaN, 9)
      }
    },
  )

  it('overlap_score_weight - sets the prefill scale, and 0 disables the credit, too', () => {
    const weights = weightsOf(cases[0] as Case)
    expect(overrideWeights(weights, { overlapScoreWeight: 3 }).prefillLoadScale).toBe(3)
    const none = overrideWeights(weights, { overlapScoreWeight: 0 })
    expect([none.prefillLoadScale, none.overlapScoreCredit]).toEqual([0, 0])
  })
})

describe('user-defined terms', () => {
  const PLAIN = weightsOf({ ...(cases[0] as Case), config: { prefill_load_scale: 1 } })
  const costWith = (terms: readonly CostTerm[], candidate: Partial<Candidate> = {}) =>
    costOf(terms, PLAIN, { ...CANDIDATE, ...candidate })

  it('add, credit, factor - each is applied by its role, in order', () => {
    expect(costWith([])).toBe(4)
    expect(costWith([{ name: 'a', of: () => 3 }])).toBe(4 + 3)
    expect(costWith([{ name: 'a', weight: 2, of: () => 3 }])).toBe(4 + 2 * 3)
    expect(costWith([{ name: 'a', role: 'credit', of: () => 3 }])).toBe(4 - 3)
    expect(costWith([{ name: 'a', role: 'credit', of: () => 5 }])).toBe(0)
    const factor: CostTerm = { name: 'f', role: 'factor', of: () => 10 }
    const added: CostTerm = { name: 'a', of: () => 1 }
    expect(costWith([factor, added])).toBe(4 * 10 + 1)
    expect(costWith([added, factor])).toBe((4 + 1) * 10)
  })

  it('many terms - all are applied, in order', () => {
    const many = Array.from({ length: 9 }, (_, i): CostTerm => ({ name: `t${i}`, of: () => i }))
    const credits = Array.from({ length: 5 }, (_, i): CostTerm => ({
      name: `c${i}`,
      role: 'credit',
      of: () => 0.5,
    }))
    const half: CostTerm = { name: 'half', role: 'factor', of: () => 0.5 }
    expect(costWith([...credits, ...many, half])).toBe((4 - 2.5 + 36) / 2)
  })

  it('a user-defined term - reads the same candidate as the built-in terms', () => {
    const seen: CostTerm = {
      name: 'seen',
      of: ({ hostBlocks, diskBlocks, totalBlocks, queuedRequests, holdsSession, taints }) =>
        hostBlocks + diskBlocks + (totalBlocks ?? 0) + queuedRequests + taints.size + +holdsSession,
    }
    const candidate = {
      hostBlocks: 1,
      diskBlocks: 2,
      totalBlocks: 100,
      queuedRequests: 7,
      taints: new Set(['a']),
      holdsSession: true,
    }
    expect(costWith([seen], candidate)).toBe(4 + 1 + 2 + 100 + 7 + 1 + 1)
  })

  it.each([
    ['NaN', () => NaN, "scorer 'bad' returned NaN, expected a number"],
    ['a promise', async () => 1, "scorer 'bad' returned a promise, expected a number"],
    ['undefined', () => undefined, "scorer 'bad' returned undefined, expected a number"],
    ['what has no text', () => Object.create(null), "scorer 'bad' returned a value that cannot be"],
    [
      'a throw without a text',
      () => {
        throw Object.create(null)
      },
      "scorer 'bad' threw: a value that cannot be",
    ],
    ['a throw', () => expect.fail('no table'), "scorer 'bad' threw: AssertionError: no table"],
  ])('%s - is an error that names the term', (_, of, message) => {
    const bad = { name: 'bad', of } as unknown as CostTerm
    expect(() => costWith([bad])).toThrow(message)
  })

  it('infinity - is accepted: such a rank is chosen only if there is no other', () => {
    expect(costWith([{ name: 'never', of: () => Infinity }])).toBe(Infinity)
  })

  it('values - of every term by name, before the weight', () => {
    const cost = new CostFunction([{ name: 'mine', unit: 'kW', weight: 3, of: () => 2 }])
    cost.begin(PLAIN, DECISION)
    const values = cost.valuesOf({ ...CANDIDATE, deviceBlocks: 1 }, request(1))
    expect(cost.terms.map(({ name }, i) => [name, values[i]])).toEqual([
      ['device', 1],
      ['host', 0],
      ['disk', 0],
      ['shared', 0],
      ['prefill', 4],
      ['decode', 0],
      ['requests', 0],
      ['taints', 1],
      ['mine', 2],
    ])
    expect(cost.terms.at(-1)).toEqual({ name: 'mine', unit: 'kW', role: 'add', weight: 3 })
  })
})
