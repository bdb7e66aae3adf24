import { describe, expect, it } from 'vitest'

import { DecisionRing } from './decision-record.ts'
import type { DecisionRecord } from './decision-record.ts'

const record = (requestId: string, phase: DecisionRecord['phase']): DecisionRecord => ({
  requestId,
  phase,
  atMs: 0,
  atEpochMs: 0,
  mode: 'kv',
  promptTokens: 0,
  promptBlocks: 0,
  queuedMs: 0,
  ranksSeen: 0,
  ranksEligible: 0,
  candidates: [],
  excluded: [],
  outcome: { kind: 'refused', code: 'backend.unknown', message: '' },
})

describe('DecisionRing', () => {
  it('bound - the oldest records go, one by one', () => {
    const ring = new DecisionRing(3)
    ring.add(record('a', 'prefill'))
    ring.add(record('a', 'decode'))
    ring.add(record('b', 'aggregated'))
    ring.add(record('c', 'aggregated'))
    expect(ring.get('a')?.map(({ phase }) => phase)).toEqual(['decode'])
    ring.add(record('d', 'aggregated'))
    expect(ring.get('a')).toBeNull()
    expect(ring.get('d')).toHaveLength(1)
    expect(ring.size).toBe(3)
  })
})
