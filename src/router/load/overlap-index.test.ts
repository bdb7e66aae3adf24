import { describe, expect, it } from 'vitest'

import { storedTokens, tokensFrom } from '../../../test/router/model-fixture.ts'
import { buildPool, selected, stored } from '../../../test/router/pool-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { KvTier } from '../../kv/index.ts'

describe('KvRouter: cached blocks', () => {
  it('prediction on routing - a burst with a common prefix goes to the same worker', () => {
    const { router, clock } = buildPool({ predictedTtlSeconds: 5 })
    for (const id of [1, 2, 3]) router.workerJoined(card(id))
    const first = selected(router, 400)
    router.free(router.book(first))
    expect(selected(router, 400).workerId).toBe(first.workerId)
    expect(selected(router, 400).overlapBlocks).toBe(100)
    clock.advance(6000)
    expect(selected(router, 400).overlapBlocks).toBe(0)
  })

  it('events off - decisions are the only source', () => {
    const { router } = buildPool({ useKvEvents: false })
    router.workerJoined(card(1))
    stored(router, 1, [0, 1, 2, 3])
    expect(selected(router, 16).overlapBlocks).toBe(0)
    router.book(selected(router, 16))
    expect(selected(router, 16).overlapBlocks).toBe(4)
  })

  it('no events announced - a worker is assumed to cache what it was sent, and a burst stays together', () => {
    const { router } = buildPool()
    for (const id of [1, 2, 3]) router.workerJoined(card(id, 'agg', { publishesKvEvents: false }))
    const first = selected(router, 400)
    router.prefillDone(router.book(first))
    for (let i = 0; i < 3; i++) expect(selected(router, 400).workerId).toBe(first.workerId)
    expect(selected(router, 400).overlapBlocks).toBe(100)
  })

  it('no events, known capacity - the oldest prompts are dropped when the capacity is used, not by time', () => {
    const { router, clock } = buildPool()
    const engine = { totalKvBlocks: 20 }
    router.workerJoined(card(1, 'agg', { publishesKvEvents: false, engine }))
    const prompt = (first: number) => tokensFrom(first, 40)
    for (const first of [0, 1000]) router.free(router.book(selected(router, prompt(first))))
    clock.advance(600_000)
    expect([0, 1000].map((at) => selected(router, prompt(at)).overlapBlocks)).toEqual([10, 10])
    router.free(router.book(selected(router, prompt(2000))))
    const held = [0, 1000, 2000].map((at) => selected(router, prompt(at)).overlapBlocks)
    expect(held).toEqual([0, 10, 10])
  })

  it('no events, unknown capacity - prompts count for their TTL', () => {
    const { router, clock } = buildPool({ approximateTtlSeconds: 120 })
    const engine = { totalKvBlocks: 0 }
    router.workerJoined(card(1, 'agg', { publishesKvEvents: false, engine }))
    router.free(router.book(selected(router, 40)))
    clock.advance(119_000)
    expect(selected(router, 40).overlapBlocks).toBe(10)
    clock.advance(1000)
    expect(selected(router, 40).overlapBlocks).toBe(0)
  })

  it('events announced, none received - estimates are used after some prompts, until the first event', () => {
    const { router } = buildPool()
    router.workerJoined(card(1))
    for (let i = 0; i < 8; i++) {
      expect(selected(router, 16).overlapBlocks).toBe(0)
      router.book(selected(router, 16))
    }
    router.book(selected(router, 16))
    expect(selected(router, 16).overlapBlocks).toBe(4)
    stored(router, 1, tokensFrom(1000, 8))
    expect(selected(router, 16).overlapBlocks).toBe(0)
  })

  it('tiers - host and disk blocks count by their weights, after those of the device', () => {
    const { router } = buildPool()
    router.workerJoined(card(1))
    const [event] = storedTokens(tokensFrom(0, 32)).events
    if (event?.kind !== 'stored') throw new Error('no store')
    const { hashes } = event
    const part = (sequence: number, tier: KvTier, from: number, to: number): void => {
      const parent =
        from === 0 ? null : ([hashes[2 * from - 2] ?? 0, hashes[2 * from - 1] ?? 0] as const)
      const stored = {
        kind: 'stored',
        parent,
        hashes: hashes.slice(2 * from, 2 * to),
        localHashes: new Uint32Array(0),
        tier,
      } as const
      router.kvEvents(workerIdOf(1), { sequence, dpRank: 0, events: [stored] })
    }
    part(1, 'device', 0, 2)
    part(2, 'host', 2, 5)
    part(3, 'disk', 5, 8)
    const answer = selected(router, 32)
    expect(answer.record.candidates[0]).toMatchObject({
      cost: 8 - (2 + 0.75 * 3 + 0.25 * 3) + 8,
      terms: { device: 2, host: 3, disk: 3 },
    })
    expect(answer.cachedTokens).toBe(4 * 5)
    expect(answer.overlapBlocks).toBe(8)
  })

  it('worker left - its blocks, load and bookings are removed', () => {
    const { router } = buildPool()
    router.workerJoined(card(1))
    router.workerJoined(card(2))
    stored(
      router,
      1,
      Array.from({ length: 16 }, (_, i) => i),
    )
    const booking = router.book(selected(router, 16))
    router.workerLeft(workerIdOf(1), 'gone')
    router.workerJoined(card(3))
    router.free(booking)
    for (const rank of router.status().ranks) expect(rank.activeRequests).toBe(0)
    expect(selected(router, 16).overlapBlocks).toBe(0)
  })

  it('event gap - is counted', () => {
    const { router } = buildPool()
    router.workerJoined(card(1))
    for (const sequence of [1, 2, 5]) {
      router.kvEvents(workerIdOf(1), { sequence, dpRank: 0, events: [] })
    }
    expect(router.status().kvEventGaps).toBe(1)
  })
})

describe('KvRouter: a shared cache', () => {
  it('ranges - blocks not on the device count by the multiplier, and the record says so', () => {
    const asked: number[] = []
    const { router } = buildPool({
      sharedCacheMultiplier: 0.5,
      sharedCache: (hashes) => {
        asked.push(hashes.length / 2)
        return [
          [0, 3],
          [4, 8],
        ]
      },
    })
    router.workerJoined(card(1))
    router.workerJoined(card(2))
    stored(router, 1, tokensFrom(0, 16))
    const { record } = selected(router, 32)
    const terms = Object.fromEntries(
      record.candidates.map(({ workerId, terms: values, cost }) => [
        workerId,
        [values['shared'], cost],
      ]),
    )
    expect(terms).toEqual({ 1: [4, 8 - (4 + 0.5 * 4) + 8], 2: [7, 8 - 0.5 * 7 + 8] })
    expect(asked).toEqual([8])
  })

  it('multiplier 0, of the router or the request - the cache is not queried', () => {
    const never = { sharedCache: () => expect.unreachable() }
    const off = buildPool(never).router
    off.workerJoined(card(1))
    selected(off, 32)
    const on = buildPool({ ...never, sharedCacheMultiplier: 1 }).router
    on.workerJoined(card(1))
    selected(on, 32, { overrides: { sharedCacheMultiplier: 0 } })
  })
})
