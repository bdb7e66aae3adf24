import { describe, expect, it } from 'vitest'
import { listedSnapshot } from '../../../test/network/listed-snapshot.ts'
import { LOAD, listen, planeTo } from '../../../test/network/tcp-worker-kit.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import { until } from '../../testing/kv-transport-kit.ts'
import type { KvSnapshot } from '../../wire/index.ts'
import { WORKER, countingHandler } from '../../testing/request-plane-kit.ts'

const stored = (sequence: number, first = 1): KvEventBatch => ({
  sequence,
  dpRank: 0,
  events: [
    {
      kind: 'stored',
      parent: null,
      hashes: Uint32Array.of(first, 0),
      localHashes: new Uint32Array(0),
      tier: 'device',
    },
  ],
})

describe('KV events and load reports over TCP', () => {
  it('KV events and load - reach every frontend in order; a late one starts with a snapshot', async () => {
    const snapshot: KvEventBatch = { ...stored(2), events: [{ kind: 'cleared' }] }
    const handler = { ...countingHandler, kvSnapshot: () => listedSnapshot(snapshot) }
    const server = await listen({ handler })
    const seen: number[][] = [[], []]
    const loads: LoadReport[][] = [[], []]
    for (const [i, events] of seen.entries()) {
      planeTo(server, {
        onKvEvents: (_id, batch) => events.push(batch.sequence),
        onLoad: (_id, report) => loads[i]?.push(report),
      })
    }
    await until('snapshots', () => seen.every((events) => events.length === 1))
    server.publishKvEvents(stored(3))
    server.publishKvEvents(stored(4))
    server.publishLoad({ ...LOAD, queuedRequests: 9 })
    server.publishLoad(LOAD)
    server.publishLoad({ ...LOAD, dpRank: 1 })
    await until('all', () => [...seen, ...loads].every((all, i) => all.length === (i < 2 ? 3 : 2)))
    expect(seen).toEqual([
      [2, 3, 4],
      [2, 3, 4],
    ])
    const other = { ...LOAD, dpRank: 1 }
    expect(loads).toEqual([
      [LOAD, other],
      [LOAD, other],
    ])
  })

  it('load - a late frontend gets the newest report even if it does not change any more', async () => {
    const server = await listen({ handler: { ...countingHandler, loadSnapshot: () => [LOAD] } })
    const loads: LoadReport[] = []
    planeTo(server, { onKvEvents: () => undefined, onLoad: (_id, report) => loads.push(report) })
    await until('load', () => loads.length === 1)
    expect(loads).toEqual([LOAD])
  })

  it.each([
    ['right', 0, 0, 0],
    ['an hour ahead', 3_600_000, 3_000_000, 3_600_000],
    ['an hour behind', -3_600_000, -3_600_000, -3_000_000],
  ])(
    'the clock of a worker that is %s - is reported with the connection',
    async (_, offMs, least, most) => {
      const server = await listen({ epochMs: () => Date.now() + offMs })
      const offsets: number[] = []
      planeTo(server, { onConnected: (_id, clockOffsetMs) => offsets.push(clockOffsetMs) })
      await until('connected', () => offsets.length === 1)
      // A slow connection brings the offset nearer to 0, never further from it.
      expect(offsets[0]).toBeGreaterThanOrEqual(least)
      expect(offsets[0]).toBeLessThanOrEqual(most)
    },
  )

  it('a late frontend - is told once per connection that snapshot and loads are complete', async () => {
    const snapshot: KvEventBatch = { ...stored(2), events: [{ kind: 'cleared' }] }
    const told: string[] = []
    const server = await listen({
      handler: {
        ...countingHandler,
        kvSnapshot: () => listedSnapshot(snapshot),
        loadSnapshot: () => [LOAD],
      },
    })
    planeTo(server, {
      timing: { pingEveryMs: 5, silenceMs: 20_000, handshakeMs: 5_000 },
      onConnected: () => told.push('connected'),
      onKvEvents: (_id, { sequence }) => told.push(`events ${sequence}`),
      onLoad: () => told.push('load'),
      onCaughtUp: () => told.push('caught up'),
    })
    await until('all', () => told.includes('caught up'))
    server.publishKvEvents(stored(3))
    await until('later events', () => told.includes('events 3'))
    expect(told).toEqual(['connected', 'events 2', 'load', 'caught up', 'events 3'])
  })

  it('KV events - all are sent again to a frontend that learns of a changed card', async () => {
    const snapshot: KvEventBatch = { ...stored(2), events: [{ kind: 'cleared' }] }
    const server = await listen({
      handler: { ...countingHandler, kvSnapshot: () => listedSnapshot(snapshot) },
    })
    let snapshots = 0
    const plane = planeTo(server, { onKvEvents: () => (snapshots += 1) })
    await until('the first', () => snapshots === 1)
    plane.workerJoined({ workerId: WORKER, host: server.host, port: server.port })
    await until('another', () => snapshots === 2)
  })

  it('KV events - after a gap nothing is delivered until a complete snapshot', async () => {
    let last = 0
    const kvSnapshot = (): KvSnapshot =>
      listedSnapshot({ ...stored(last), events: [{ kind: 'cleared' }] })
    const server = await listen({ handler: { ...countingHandler, kvSnapshot } })
    const seen: string[] = []
    planeTo(server, {
      onKvEvents: (_id, batch) => seen.push(`${batch.sequence} ${batch.events[0]?.kind}`),
    })
    await until('snapshot', () => seen.length === 1)
    server.publishKvEvents(stored((last = 1)))
    last = 3
    server.publishKvEvents(stored(3))
    await until('events', () => seen.length === 3)
    expect(seen).toEqual(['0 cleared', '1 stored', '3 cleared'])
  })

  it('KV events - a batch that was partly refused is followed by a snapshot', async () => {
    const kvSnapshot = (): KvSnapshot =>
      listedSnapshot({ ...stored(2), events: [{ kind: 'cleared' }] })
    const server = await listen({ handler: { ...countingHandler, kvSnapshot } })
    const seen: (string | undefined)[] = []
    const asked: number[] = []
    planeTo(server, {
      onKvEvents: (_id, batch) => seen.push(batch.events[0]?.kind),
      wantsKvSnapshot: (_id, dpRank) => {
        asked.push(dpRank)
        return asked.length === 2
      },
    })
    await until('snapshot', () => seen.length === 1)
    server.publishKvEvents(stored(3))
    await until('the second snapshot', () => seen.length === 3)
    expect(seen).toEqual(['cleared', 'stored', 'cleared'])
    expect(asked).toEqual([0, 0, 0])
  })
})
