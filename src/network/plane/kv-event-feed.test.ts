/** Snapshots of large caches over real connections, while everything else goes on. */
import { describe, expect, it } from 'vitest'
import { CachedBlocks, FollowedBlocks } from '../../../test/cached-blocks.ts'
import {
  BareFrontend,
  LOAD,
  afterTest,
  listen,
  planeTo,
} from '../../../test/network/tcp-worker-kit.ts'
import { until } from '../../../test/until.ts'
import { randomInt, seededRandom, workerIdOf } from '../../base/index.ts'
import type { KvEvent, KvEventBatch } from '../../kv/index.ts'
import { countingHandler } from '../../testing/request-plane-kit.ts'
import { TAG } from '../../wire/index.ts'
import type { WorkerHandler } from '../../wire/index.ts'
import { KvEventPublisher } from '../../worker/kv-events/kv-event-publisher.ts'
import { TcpRequestPlane } from './tcp-request-plane.ts'
import type { TcpWorkerServer } from './tcp-worker-server.ts'

const BLOCKS = 40_000
/** Blocks and events of a part, and of a turn of the event loop. */
const PART = 2_048
const TURN = 4_096

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const blocksIn = ({ events }: KvEventBatch): number =>
  events.reduce((sum, event) => sum + (event.kind === 'stored' ? event.hashes.length / 2 : 0), 0)

/** A cache of many single blocks, as a worker records it. */
function largeCache(publish: (batch: KvEventBatch) => void = () => undefined): KvEventPublisher {
  const kv = new KvEventPublisher(publish)
  for (let i = 0; i < BLOCKS; i++) kv.publish(0, [storedBlock(i)])
  return kv
}

function storedBlock(i: number): KvEvent {
  return {
    kind: 'stored',
    parent: null,
    hashes: Uint32Array.of(Math.imul(i + 1, 0x9e3779b1) >>> 0, i),
    localHashes: new Uint32Array(0),
    tier: 'device',
  }
}

const handlerOf = (kv: KvEventPublisher): WorkerHandler => ({
  ...countingHandler,
  kvSnapshot: () => kv.snapshot(),
})

describe('a snapshot of a large cache', () => {
  it('other messages - come between its parts, and the frontend has caught up after the last', async () => {
    const kv = largeCache()
    const server = await listen({ handler: handlerOf(kv) })
    const seen: ('part' | 'load' | 'caught up')[] = []
    let blocks = 0
    let largest = 0
    planeTo(server, {
      onKvEvents: (_id, batch) => {
        seen.push('part')
        blocks += blocksIn(batch)
        largest = Math.max(largest, batch.events.length + blocksIn(batch))
      },
      onLoad: () => seen.push('load'),
      onCaughtUp: () => seen.push('caught up'),
    })
    for (let i = 0; !seen.includes('caught up'); i++) {
      server.publishLoad({ ...LOAD, queuedRequests: i })
      await nextTurn()
    }
    expect(blocks).toBe(BLOCKS)
    expect(largest).toBeLessThan(PART + 100)
    const parts = seen.slice(seen.indexOf('part'), seen.lastIndexOf('part'))
    expect(parts.filter((what) => what === 'part').length).toBeGreaterThan(30)
    expect(parts.filter((what) => what === 'load').length).toBeGreaterThan(8)
    expect(seen.indexOf('caught up')).toBeGreaterThan(seen.lastIndexOf('part'))
  })

  it('a frontend that confirms nothing - gets a few parts, and everything else at once', async () => {
    const kv = largeCache()
    const server = await listen({ handler: handlerOf(kv) })
    const frontend = new BareFrontend(server, 1_000, ['kv-events'])
    const count = (tag: number): number =>
      frontend.frames.filter((frame) => frame.tag === tag).length
    await until('the first parts', () => count(TAG.KV_EVENTS) === 4)
    for (let i = 0; i < 50; i++) {
      server.publishLoad({ ...LOAD, queuedRequests: i })
      await until('the load', () => count(TAG.LOAD) === i + 1)
    }
    expect(count(TAG.KV_EVENTS)).toBe(4)
    const laterMs = performance.now()
    frontend.writer.begin(TAG.PONG).f64(laterMs).end()
    frontend.flush()
    await until('the next parts', () => count(TAG.KV_EVENTS) === 8)
  })

  it('a frontend that leaves in the middle - the records are free of it', async () => {
    const kv = largeCache()
    let open = 0
    const handler: WorkerHandler = {
      ...countingHandler,
      kvSnapshot: () => {
        const snapshot = kv.snapshot()
        open++
        return {
          next: () => snapshot.next(),
          follow: (batch) => snapshot.follow(batch),
          close: () => {
            open--
            snapshot.close()
          },
        }
      },
    }
    const server = await listen({ handler })
    const frontend = new BareFrontend(server, 1_000, ['kv-events'])
    await until('the first parts', () => frontend.frames.length > 4)
    expect(open).toBe(1)
    frontend.socket.destroy()
    await until('the end', () => open === 0)
  })

  it('eight workers at once - a turn of the frontend applies a bounded number of blocks', async () => {
    const kv = largeCache()
    const perTurn: number[] = []
    let turn = 0
    const plane = new TcpRequestPlane({
      onKvEvents: (_id, batch) => {
        perTurn[turn] = (perTurn[turn] ?? 0) + batch.events.length + blocksIn(batch)
      },
    })
    afterTest(() => plane.close())
    for (let i = 0; i < 8; i++) {
      const { host, port } = await listen({ handler: handlerOf(kv) })
      plane.workerJoined({ workerId: workerIdOf(100 + i), host, port })
    }
    const sum = (): number => perTurn.reduce((all, some) => all + (some ?? 0), 0)
    for (; sum() < 8 * 2 * BLOCKS; turn++) await nextTurn()
    // Events are applied before and after this loop's own place in the turn, so a turn here may touch two there.
    expect(Math.max(...perTurn.filter((work) => work > 0))).toBeLessThan(2 * (TURN + PART + 100))
  })

  it('events in one large frame after another, of an older worker - are applied in several turns', async () => {
    const first: KvEventBatch = { sequence: 1, dpRank: 0, events: [{ kind: 'cleared' }] }
    const server = await listen({
      handler: {
        ...countingHandler,
        kvSnapshot: () => ({ next: () => null, follow: ({ events }) => events, close: () => 0 }),
      },
    })
    const seen: string[] = []
    let turn = 0
    const turns = new Set<number>()
    planeTo(server, {
      onKvEvents: (_id, batch) => {
        turns.add(turn)
        seen.push(`${batch.sequence}`)
      },
      onCaughtUp: () => seen.push('caught up'),
    })
    await until('the connection', () => seen.includes('caught up'))
    for (let i = 0; i < 20; i++) {
      const events = Array.from({ length: PART }, (_, k) => storedBlock(i * PART + k))
      server.publishKvEvents({ ...first, sequence: i + 1, events })
    }
    for (; seen.length < 21; turn++) await nextTurn()
    expect(seen.slice(1)).toEqual(Array.from({ length: 20 }, (_, i) => `${i + 1}`))
    expect(turns.size).toBeGreaterThan(4)
  })
})

describe('events, questions and lost connections during snapshots', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'every frontend - has exactly the blocks of the worker in the end, seed %d',
    async (seed) => {
      const random = seededRandom(seed)
      const dice = (sides: number): number => randomInt(random, sides)
      const ranks = [0, 1]
      const hasHeldKv = seed % 4 === 0
      const caches = ranks.map(
        () => new CachedBlocks(random, { isNamed: seed % 2 === 0, hasCopies: !hasHeldKv }),
      )
      let server: TcpWorkerServer | null = null
      const kv: KvEventPublisher = new KvEventPublisher(
        (batch) => server?.publishKvEvents(batch),
        hasHeldKv ? (rank) => caches[rank]?.held() ?? [] : null,
        { partMax: 50, waitingWordsMax: 5_000 },
      )
      const change = (): void => {
        const rank = dice(2)
        kv.publish(rank, caches[rank]?.change() ?? [])
      }
      for (let i = 0; i < 1_500; i++) change()
      server = await listen({ handler: handlerOf(kv) })
      const workerId = workerIdOf(7)
      const card = { workerId, host: server.host, port: server.port }
      const frontends = Array.from({ length: 4 }, () => {
        const followed = ranks.map(() => new FollowedBlocks())
        let caughtUp = 0
        const plane = new TcpRequestPlane({
          backoffMsMin: 1,
          backoffMsMax: 2,
          onKvEvents: (_id, batch) => followed[batch.dpRank]?.take(batch),
          onCaughtUp: () => (caughtUp += 1),
        })
        afterTest(() => plane.close())
        return { followed, plane, caughtUp: () => caughtUp }
      })
      for (const { plane } of frontends) plane.workerJoined(card)
      for (let i = 0; i < 300; i++) {
        for (let k = dice(6); k > 0; k--) change()
        const { plane } = frontends[dice(4)]!
        if (dice(12) === 0) plane.workerJoined(card)
        if (dice(40) === 0) {
          plane.workerLeft(workerId, 'expired')
          plane.workerJoined(card)
        }
        await nextTurn()
      }
      const truth = JSON.stringify(caches.map(({ names }) => names))
      await until('all know', () =>
        frontends.every(
          ({ followed }) => JSON.stringify(followed.map(({ names }) => names)) === truth,
        ),
      )
      for (const { followed } of frontends)
        expect(followed.map(({ refused }) => refused)).toEqual([0, 0])
    },
  )
})
