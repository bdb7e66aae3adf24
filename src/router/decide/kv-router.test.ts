import { describe, expect, it } from 'vitest'

import { buildPool, select, selected, stored } from '../../../test/router/pool-fixture.ts'
import { card, request } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { RouterOverrides } from '../../request/index.ts'
import type { RouterOptions } from '../configuration/router-config.ts'

const ONE = workerIdOf(1)

describe('KvRouter: eligibility', () => {
  it('typed reasons - every exclusion is named', () => {
    const { router } = buildPool({
      filters: [({ card: { workerId } }) => (workerId === '4' ? 'too far' : null)],
    })
    for (const id of [1, 2, 3, 4]) router.workerJoined(card(id))
    router.fence(workerIdOf(3), 1000)
    const answer = select(router, 16, {
      excludedWorkerIds: [workerIdOf(1)],
      requiredTaints: ['gold'],
    })
    expect(answer.kind).toBe('refused')
    expect(answer.record.excluded.map(({ reason }) => reason)).toEqual([
      'excluded',
      'missing-taint: gold',
      'fenced',
      'missing-taint: gold',
    ])
    const open = select(router, 16, { excludedWorkerIds: [workerIdOf(1)] })
    expect(open.record.excluded.map(({ reason }) => reason)).toEqual([
      'excluded',
      'fenced',
      'filtered: too far',
    ])
  })

  it('LoRA - only workers with the adapter, also if none is left or another is named', () => {
    const { router } = buildPool()
    const engine = { loraAdapters: ['poet'] }
    router.workerJoined(card(1))
    router.workerJoined(card(2, 'agg', { engine }))
    for (let i = 0; i < 3; i++) {
      const answer = selected(router, 16, { loraName: 'poet' })
      expect(answer.workerId).toBe('2')
      expect(answer.record.excluded).toEqual([
        { workerId: '1', dpRank: 0, reason: 'missing-adapter' },
      ])
      router.book(answer)
    }
    expect(selected(router, 16).workerId).toBe('1')
    router.workerJoined(card(2))
    for (const hints of [{}, { backendWorkerId: ONE }, { allowedWorkerIds: [ONE] }]) {
      expect(select(router, 16, { loraName: 'poet', ...hints })).toMatchObject({
        kind: 'refused',
        error: { code: 'backend.worker_unavailable' },
      })
    }
  })

  it('LoRA - an overloaded worker with the adapter is not replaced by one without', () => {
    const { router } = buildPool({ busy: { activePrefillTokens: 10 } })
    router.workerJoined(card(1))
    router.workerJoined(card(2, 'agg', { engine: { loraAdapters: ['poet'] } }))
    router.book(selected(router, 16, { loraName: 'poet' }))
    expect(select(router, 16, { loraName: 'poet' })).toMatchObject({
      kind: 'refused',
      overloaded: true,
    })
  })

  it('fence - a fenced worker is used if there is no other', () => {
    const { router } = buildPool()
    router.workerJoined(card(1))
    router.fence(workerIdOf(1), 1000)
    expect(selected(router, 16).workerId).toBe('1')
  })

  it('all overloaded - a capacity refusal with limit, current and retry time', () => {
    const { router } = buildPool({ busy: { activePrefillTokens: 10 } })
    router.workerJoined(card(1))
    const booking = router.book(selected(router, 16))
    const answer = select(router, 16)
    if (answer.kind !== 'refused') throw new Error('was not refused')
    expect(answer.error.code).toBe('capacity.pool_exhausted')
    expect(answer.error.data).toEqual({
      phase: 'aggregated',
      kind: 'prefill tokens',
      limit: 10,
      current: 16,
      retryAfterMs: 1000,
    })
    const pinned = select(router, 16, { backendWorkerId: workerIdOf(1) })
    if (pinned.kind !== 'refused') throw new Error('was not refused')
    expect(pinned.error.code).toBe('capacity.worker_overloaded')
    expect(pinned.error.data).toMatchObject({ limit: 10, current: 16, workerId: '1' })
    router.free(booking)
    expect(selected(router, 16).workerId).toBe('1')
  })

  it('ranks - a worker is overloaded only if all of its ranks are', () => {
    const { router } = buildPool({ busy: { activePrefillTokens: 10 } })
    router.workerJoined(card(1, 'agg', { engine: { dataParallelSize: 2 } }))
    const first = selected(router, 16)
    router.book(first)
    expect(router.status().ranks.filter(({ overloaded }) => overloaded)).toHaveLength(1)
    const second = selected(router, 16)
    expect(second.kind).toBe('selected')
    router.book({ ...second, slot: 1 - first.slot })
    expect(select(router, 16).kind).toBe('refused')
  })

  it('decode latch - set by either signal, cleared only when both are low', () => {
    const { router } = buildPool({ busy: { activeDecodeBlocks: 0.5 } })
    router.workerJoined(card(1, 'agg', { engine: { totalKvBlocks: 10 } }))
    const report = {
      dpRank: 0,
      totalBlocks: 10,
      runningRequests: 0,
      queuedRequests: 0,
      prefillTokensInFlight: 0,
    }
    const booking = router.book(selected(router, 24))
    router.load(workerIdOf(1), { ...report, activeBlocks: 9 })
    const refused = select(router, 16)
    if (refused.kind !== 'refused') throw new Error('was not refused')
    expect(refused.error.data).toMatchObject({ kind: 'decode blocks', limit: 5, current: 9 })
    router.load(workerIdOf(1), { ...report, activeBlocks: 1 })
    expect(select(router, 16).kind).toBe('refused')
    router.free(booking)
    expect(select(router, 16).kind).toBe('selected')
  })
})

describe('KvRouter: load', () => {
  it('known prefill speed - the load decays while the prefill runs', () => {
    const { router, clock } = buildPool({ prefillTokensPerSecond: 100 })
    router.workerJoined(card(1))
    router.book(selected(router, 100))
    const tokens = () => router.status().ranks[0]?.activePrefillTokens
    expect(tokens()).toBe(100)
    clock.advance(400)
    expect(tokens()).toBe(60)
    clock.advance(1000)
    expect(tokens()).toBe(0)
  })

  it('known prefill speed - a busy rank is chosen again when enough load has decayed', () => {
    const { router, clock } = buildPool({
      prefillTokensPerSecond: 100,
      busy: { activePrefillTokens: 50 },
    })
    router.workerJoined(card(1))
    router.book(selected(router, 100))
    clock.advance(499)
    expect(select(router, 16).kind).toBe('refused')
    clock.advance(1)
    expect(select(router, 16).kind).toBe('selected')
  })

  it('no reuse assumed - each request counts its own blocks', () => {
    const { router } = buildPool({ assumeKvReuse: false })
    router.workerJoined(card(1))
    const bookings = [1, 2].map(() => router.book(selected(router, 16)))
    expect(router.status().ranks[0]?.activeDecodeBlocks).toBe(8)
    for (const booking of bookings) router.free(booking)
    expect(router.status().ranks[0]?.activeDecodeBlocks).toBe(0)
  })
})

describe('KvRouter: pins and ranks', () => {
  it('pinned worker - exactly that one, regardless of cost', () => {
    const { router } = buildPool()
    router.workerJoined(card(1))
    router.workerJoined(card(2))
    router.book(selected(router, 64, { backendWorkerId: workerIdOf(2) }))
    expect(selected(router, 64, { backendWorkerId: workerIdOf(2) }).workerId).toBe('2')
  })

  it('missing rank - the only one is used, or the error asks for it', () => {
    const { router } = buildPool()
    router.workerJoined(card(1, 'agg', { engine: { dataParallelSize: 2 } }))
    const answer = select(router, 16, { backendWorkerId: workerIdOf(1) })
    if (answer.kind !== 'refused') throw new Error('was not refused')
    expect(answer.error.message).toContain('dp_rank')
    expect(selected(router, 16, { backendWorkerId: workerIdOf(1), dpRank: 1 }).dpRank).toBe(1)
  })

  it('ranks - each has its own cached blocks and load', () => {
    const { router } = buildPool()
    router.workerJoined(card(1, 'agg', { engine: { dataParallelSize: 2 } }))
    stored(router, 1, [0, 1, 2, 3, 4, 5, 6, 7], 1)
    const answer = selected(router, 16)
    expect([answer.dpRank, answer.overlapBlocks]).toEqual([1, 2])
  })

  it('direct mode - without an id the error names the header', () => {
    const { router } = buildPool({ mode: 'direct' })
    router.workerJoined(card(1))
    const answer = select(router, 16)
    if (answer.kind !== 'refused') throw new Error('was not refused')
    expect(answer.error.message).toContain('x-dynamo-worker-instance-id')
    expect(selected(router, 16, { backendWorkerId: workerIdOf(1) }).workerId).toBe('1')
  })
})

describe('KvRouter: overrides of one request', () => {
  const overridden = (overrides: RouterOverrides) => {
    const { router } = buildPool()
    for (const id of [1, 2]) router.workerJoined(card(id))
    stored(router, 1, [0, 1, 2, 3, 4, 5, 6, 7])
    router.book(selected(router, [100, 101, 102, 103], { backendWorkerId: workerIdOf(1) }))
    const answer = selected(router, 16, { overrides })
    const costs = Object.fromEntries(
      answer.record.candidates.map(({ workerId, cost }) => [workerId, cost]),
    )
    const after = selected(router, 16).cost
    return { answer, costs, after }
  }

  it.each([
    ['none', {}, { 1: 1 + 4 - 2 + 1 + 4, 2: 4 + 4 }],
    ['overlapScoreCredit', { overlapScoreCredit: 0 }, { 1: 5 + 5, 2: 4 + 4 }],
    ['prefillLoadScale', { prefillLoadScale: 3 }, { 1: 3 * 3 + 5, 2: 3 * 4 + 4 }],
    ['overlapScoreWeight 0', { overlapScoreWeight: 0 }, { 1: 5, 2: 4 }],
    ['trackPrefillTokens', { trackPrefillTokens: false }, { 1: 5, 2: 4 }],
  ] as const)('%s - changes its costs and those of nobody else', (_, overrides, expected) => {
    const { costs, after } = overridden(overrides)
    expect(costs).toEqual(expected)
    expect(after).toBe(8)
  })

  it('temperature, reuse - drawn at that temperature; blocks counted per request', () => {
    const { answer } = overridden({ temperature: 5, assumeKvReuse: false })
    expect(answer.record.outcome).toMatchObject({ reason: 'drawn at temperature' })
    expect(answer.assumeKvReuse).toBe(false)
  })
})

describe('KvRouter: modes', () => {
  const pick = (mode: RouterOptions['mode'], count: number): string[] => {
    const { router } = buildPool(mode === undefined ? {} : { mode })
    for (const id of [1, 2, 3]) router.workerJoined(card(id))
    return Array.from({ length: count }, () => {
      const answer = selected(router, 16)
      router.book(answer)
      return answer.workerId
    })
  }

  it('round-robin - each rank in turn', () => {
    expect(pick('round-robin', 6)).toEqual(['1', '2', '3', '1', '2', '3'])
  })

  it.each(['least-loaded', 'kv'] as const)('%s - balances the load', (mode) => {
    const counts = countBy(pick(mode, 24))
    expect(Object.values(counts)).toEqual([8, 8, 8])
  })

  it('power-of-two - no rank is far ahead', () => {
    const counts = Object.values(countBy(pick('power-of-two', 60)))
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(4)
  })

  it('random - every rank is chosen at some time', () => {
    expect(Object.keys(countBy(pick('random', 60)))).toHaveLength(3)
  })

  it('peek - changes neither cursor nor load', () => {
    const { router } = buildPool({ mode: 'round-robin' })
    for (const id of [1, 2]) router.workerJoined(card(id))
    const query = { request: request(16), phase: 'aggregated', queuedMs: 0 } as const
    for (let i = 0; i < 3; i++) router.peek(query)
    expect(selected(router, 16).workerId).toBe('1')
    expect(router.status().activeRequests).toBe(0)
  })
})

describe('KvRouter: user-defined parts', () => {
  it('scorer and picker - change the choice, and the record says so', () => {
    const { router } = buildPool({
      scorers: [{ name: 'away-from-1', of: ({ card: c }) => (c.workerId === '1' ? 50 : 0) }],
    })
    router.workerJoined(card(1))
    router.workerJoined(card(2))
    const answer = selected(router, 16)
    expect(answer.workerId).toBe('2')
    expect(answer.record.candidates.map(({ terms }) => terms['away-from-1'])).toEqual([0, 50])
    expect(answer.record.terms.at(-1)).toMatchObject({ name: 'away-from-1', weight: 1 })
    const last = buildPool({ picker: (_, count) => count - 1 })
    last.router.workerJoined(card(1))
    last.router.workerJoined(card(2))
    expect(selected(last.router, 16).record.outcome).toMatchObject({ reason: 'custom picker' })
  })
})

function countBy(values: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1
  return counts
}
