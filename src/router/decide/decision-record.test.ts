import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../base/index.ts'

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
  terms: [],
  candidates: [],
  excluded: [],
  outcome: { kind: 'refused', code: 'backend.unknown', message: '' },
})

describe('DecisionRing', () => {
  it('limit - the oldest records are dropped, one by one', () => {
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

  it.each([1, 2, 3, 4, 7])(
    'random order of requests - the last %s records are found, in order',
    (limit) => {
      const random = seededRandom(limit)
      const ring = new DecisionRing(limit)
      const all: DecisionRecord[] = []
      for (let step = 0; step < 200; step++) {
        const requestId = 'abc'[Math.floor(random.next() * 3)] as string
        const added = { ...record(requestId, 'decode'), atMs: step }
        ring.add(added)
        all.push(added)
        for (const id of ['a', 'b', 'c']) {
          const kept = all.slice(-limit).filter(({ requestId }) => requestId === id)
          expect(ring.get(id)).toEqual(kept.length === 0 ? null : kept)
        }
      }
    },
  )
})
