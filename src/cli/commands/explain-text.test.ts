import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import type { CandidateRecord, DecisionRecord } from '../../router/index.ts'
import { explainText } from './explain-text.ts'

const candidate: CandidateRecord = {
  workerId: workerIdOf(18446744073709551615n),
  dpRank: 0,
  cost: 68.333,
  terms: { device: 2, prefill: 4, taints: 1, 'spare-power': 38.123 },
}
const routed: DecisionRecord = {
  requestId: 'r1',
  phase: 'prefill',
  atMs: 0,
  atEpochMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
  mode: 'kv',
  promptTokens: 64,
  promptBlocks: 4,
  queuedMs: 12.4,
  ranksSeen: 3,
  ranksEligible: 2,
  terms: [
    { name: 'device', unit: 'blocks', role: 'credit', weight: 1 },
    { name: 'prefill', unit: 'blocks', role: 'add', weight: 16 },
    { name: 'taints', unit: 'factor', role: 'factor', weight: 1 },
    { name: 'spare-power', unit: 'kW', role: 'add', weight: 0.5 },
  ],
  candidates: [candidate, { ...candidate, workerId: workerIdOf(7), cost: 100 }],
  excluded: [{ workerId: workerIdOf(9), dpRank: 1, reason: 'fenced' }],
  outcome: {
    kind: 'routed',
    workerId: candidate.workerId,
    dpRank: 0,
    overlapBlocks: 2,
    cachedTokens: 32,
    reason: 'lowest cost',
  },
  disaggregation: 'disaggregated: long: 64 of 64 prompt tokens are uncached',
}
const refused: DecisionRecord = {
  ...routed,
  phase: 'decode',
  queuedMs: 0,
  candidates: [],
  excluded: [],
  outcome: { kind: 'refused', code: 'capacity.pool_exhausted', message: 'all are busy' },
}

describe('explainText', () => {
  it('each decision - what was decided, why, the candidates with every cost term, and the excluded workers', () => {
    const text = explainText({ request_id: 'r1', model: 'm', decisions: [routed, refused] })
    expect(text.split('\n')).toEqual([
      'request r1, model m',
      '',
      'prefill at 03:04:05.678, 12 ms in the queue: worker 18446744073709551615 rank 0 (lowest cost), which holds 2 of 4 blocks',
      '  disaggregated: long: 64 of 64 prompt tokens are uncached',
      '  mode kv, 2 of 3 ranks were eligible',
      '                worker  rank    cost  device  prefill  taints  spare-power',
      '                              weight      -1       16  factor          0.5',
      '  18446744073709551615     0   68.33       2        4       1        38.12',
      '                     7     0     100       2        4       1        38.12',
      '  excluded: worker 9 rank 1: fenced',
      '',
      'decode at 03:04:05.678: refused, capacity.pool_exhausted: all are busy',
      '  disaggregated: long: 64 of 64 prompt tokens are uncached',
      '  mode kv, 2 of 3 ranks were eligible',
    ])
  })
})
