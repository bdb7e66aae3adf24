import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import type { KvEvent } from '../../kv/index.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { buildPool } from '../../../test/router/pool-fixture.ts'

const refused: KvEvent = {
  kind: 'stored',
  parent: [1, 1],
  hashes: Uint32Array.of(2, 2),
  localHashes: new Uint32Array(0),
  tier: 'device',
}

describe('KvRouter: a snapshot after rejected events', () => {
  it('is requested once, then after a wait that doubles, and at once after a quiet time', () => {
    const { router, clock } = buildPool()
    const worker = workerIdOf(1)
    router.workerJoined(card(1))
    let sequence = 0
    const asksAfter = (...events: KvEvent[]): boolean => {
      router.kvEvents(worker, { sequence: (sequence += 1), dpRank: 0, events })
      return router.wantsKvSnapshot(worker, 0)
    }
    expect(asksAfter(), 'nothing was refused').toBe(false)
    expect(asksAfter(refused)).toBe(true)
    expect(router.wantsKvSnapshot(worker, 0), 'asked once').toBe(false)
    expect(asksAfter(refused), 'before its time').toBe(false)
    clock.advance(999)
    expect(asksAfter()).toBe(false)
    clock.advance(1)
    expect(asksAfter(), 'the wish has waited').toBe(true)
    clock.advance(1999)
    expect(asksAfter(refused), 'twice as long').toBe(false)
    clock.advance(1)
    expect(asksAfter({ kind: 'cleared' }), 'a snapshot that was taken ends the wish').toBe(false)
    clock.advance(10_000)
    expect(asksAfter(refused)).toBe(true)
    clock.advance(1000)
    expect(asksAfter(refused), 'the shortest wait again').toBe(true)
    const status = router.status()
    expect(status).toMatchObject({ kvEventErrors: 5, kvSnapshotsAsked: 4 })
    expect(router.wantsKvSnapshot(workerIdOf(9), 0), 'unknown').toBe(false)
  })

  it('a rank with few events whose snapshots are rejected, too - is asked ever more rarely', () => {
    const { router, clock } = buildPool()
    const worker = workerIdOf(1)
    router.workerJoined(card(1))
    let sequence = 0
    const tell = (...events: KvEvent[]) =>
      router.kvEvents(worker, { sequence: (sequence += 1), dpRank: 0, events })
    tell(refused)
    for (let seconds = 0; seconds < 600; seconds += 5) {
      tell({ kind: 'removed', hashes: Uint32Array.of(3, 3), tier: 'device' })
      if (router.wantsKvSnapshot(worker, 0)) tell({ kind: 'cleared' }, refused)
      clock.advance(5_000)
    }
    const { kvSnapshotsAsked } = router.status()
    expect(kvSnapshotsAsked).toBeGreaterThan(5)
    expect(kvSnapshotsAsked).toBeLessThan(20)
  })

  it('one whose events are always rejected - the waits double from 1 s to 60 s', () => {
    const { router, clock } = buildPool()
    const worker = workerIdOf(1)
    router.workerJoined(card(1))
    const askedAt: number[] = []
    for (let second = 0; second <= 243; second++) {
      router.kvEvents(worker, { sequence: second + 1, dpRank: 0, events: [refused] })
      if (router.wantsKvSnapshot(worker, 0)) askedAt.push(second)
      clock.advance(1_000)
    }
    expect(askedAt.slice(1).map((at, i) => at - askedAt[i]!)).toEqual([
      1, 2, 4, 8, 16, 32, 60, 60, 60,
    ])
  })

  it('a large snapshot, of which the last part is rejected after seconds - is asked for ever more rarely', () => {
    const { router, clock } = buildPool()
    const worker = workerIdOf(1)
    router.workerJoined(card(1))
    let sequence = 0
    const tell = (...events: KvEvent[]): boolean => {
      router.kvEvents(worker, { sequence: (sequence += 1), dpRank: 0, events })
      return router.wantsKvSnapshot(worker, 0)
    }
    for (let seconds = 0; seconds < 600; seconds += 6) {
      const isAsked = tell(refused)
      clock.advance(6_000)
      if (isAsked) tell({ kind: 'cleared' })
    }
    expect(router.status().kvSnapshotsAsked).toBeLessThan(20)
  })
})
