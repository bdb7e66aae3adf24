/**
 * Routers that connect late, lose batches or lose the connection finally know exactly what the worker has cached.
 */
import { afterEach, describe, expect, it } from 'vitest'

import { listedSnapshot } from '../../../test/network/listed-snapshot.ts'
import { until } from '../../../test/until.ts'
import { randomInt, seededRandom, workerIdOf } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import type { Engine, EngineObserver } from '../../engine/index.ts'
import { hashBlocks } from '../../kv/index.ts'
import type { KvEvent, KvEventBatch } from '../../kv/index.ts'
import { finishChunk } from '../../request/index.ts'
import type { Chunk, EngineConfig, GenerateRequest, WorkerCard } from '../../request/index.ts'
import { completeRouterConfig, KvRouter } from '../../router/index.ts'
import { Worker } from '../../worker/index.ts'
import { osClock } from '../../os/os-clock.ts'
import { LocalRequestPlane } from '../../network/plane/local-request-plane.ts'
import { TcpRequestPlane } from '../../network/plane/tcp-request-plane.ts'
import { TcpWorkerServer } from '../../network/plane/tcp-worker-server.ts'

const BLOCK_TOKENS = 4
const PROMPTS = 6
const BLOCKS = 12

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

/** Prompts share their first two blocks, like those with the same system prompt. */
const promptOf = (prompt: number): number[] =>
  Array.from({ length: BLOCKS * BLOCK_TOKENS }, (_, i) => (i < 8 ? i : 1000 * (prompt + 1) + i))

/** An engine whose cache is a changing number of blocks per prompt and rank; the first two are never evicted. */
class EventEngine implements Engine {
  readonly held: number[][]
  readonly #random: Random
  #observer: EngineObserver | null = null

  constructor(random: Random, ranks: number) {
    this.#random = random
    this.held = Array.from({ length: ranks }, () => Array<number>(PROMPTS).fill(0))
  }

  start(): Promise<EngineConfig> {
    return Promise.resolve({
      model: 'm',
      kvCacheBlockSize: BLOCK_TOKENS,
      dataParallelSize: this.held.length,
    })
  }

  async *generate(): AsyncGenerator<Chunk> {
    yield await Promise.resolve(finishChunk('length'))
  }

  observe(observer: EngineObserver): void {
    this.#observer = observer
  }

  cleanup(): Promise<void> {
    return Promise.resolve()
  }

  step(): void {
    const dpRank = randomInt(this.#random, this.held.length)
    if (randomInt(this.#random, 40) === 0) {
      this.held[dpRank]?.fill(0)
      this.#observer?.kvEvents(dpRank, [{ kind: 'cleared' }])
      return
    }
    this.move(dpRank, randomInt(this.#random, PROMPTS), 2 + randomInt(this.#random, BLOCKS - 1))
  }

  move(dpRank: number, prompt: number, to: number): void {
    const of = this.held[dpRank] ?? []
    const from = of[prompt] ?? 0
    of[prompt] = to
    const event = changeOf(prompt, from, to)
    if (event !== null) this.#observer?.kvEvents(dpRank, [event])
  }
}

function changeOf(prompt: number, from: number, to: number): KvEvent | null {
  const { sequence } = hashBlocks(Uint32Array.from(promptOf(prompt)), BLOCK_TOKENS)
  if (to < from) {
    return { kind: 'removed', hashes: sequence.slice(2 * to, 2 * from), tier: 'device' }
  }
  if (to === from) return null
  const last = 2 * from
  return {
    kind: 'stored',
    parent: from === 0 ? null : [sequence[last - 2] ?? 0, sequence[last - 1] ?? 0],
    hashes: sequence.slice(last, 2 * to),
    localHashes: new Uint32Array(0),
    tier: 'device',
  }
}

function routerOf(random: Random): KvRouter {
  return new KvRouter({ config: completeRouterConfig(), clock: osClock, random })
}

function requestOf(prompt: number): GenerateRequest {
  return {
    requestId: 'r',
    model: 'm',
    tokenIds: Uint32Array.from(promptOf(prompt)),
    sampling: {},
    stop: {},
    output: {},
    eosTokenIds: [],
    routing: {},
  }
}

/** The router's cached blocks by rank and prompt. */
function knownBy(router: KvRouter, { workerId }: WorkerCard, ranks: number): number[][] {
  return Array.from({ length: ranks }, (_rank, dpRank) =>
    Array.from({ length: PROMPTS }, (_prompt, prompt) => {
      const routing = { backendWorkerId: workerId, dpRank }
      const request = { ...requestOf(prompt), routing }
      const answer = router.peek({ request, phase: 'aggregated', queuedMs: 0 })
      return answer.kind === 'selected' ? answer.overlapBlocks : -1
    }),
  )
}

/** A block that two prompts share is cached as long as either of them is. */
function truth({ held }: EventEngine): number[][] {
  return held.map((of) => {
    const shared = Math.min(2, Math.max(...of))
    return of.map((blocks) => Math.max(blocks, shared))
  })
}

const SEEDS = [1, 2, 3, 4, 5]

describe('KV events - routers that have missed some', () => {
  it.each(SEEDS)(
    "late, lossy, disconnected - each has exactly the worker's blocks in the end, seed %d",
    async (seed) => {
      const random = seededRandom(seed)
      const engine = new EventEngine(random, 2)
      const worker = new Worker({
        engine,
        engineName: 'events',
        mode: 'agg',
        version: '0',
        workerId: workerIdOf(7),
        clock: osClock,
        observe: () => undefined,
      })
      const server = await TcpWorkerServer.listen({ handler: worker, workerId: '7' })
      ends.push(() => server.close())
      let loss = 0.3
      const card = await worker.start({
        open: () =>
          Promise.resolve({
            host: server.host,
            port: server.port,
            uplink: {
              publishKvEvents: (batch: KvEventBatch) => {
                if (random.next() >= loss) server.publishKvEvents(batch)
              },
              publishLoad: () => undefined,
              flush: () => server.flush(),
              drain: () => server.drain(),
            },
          }),
        register: () =>
          Promise.resolve({ update: () => Promise.resolve(), close: () => Promise.resolve() }),
      })
      ends.push(() => worker.stop({ routerGraceMs: 0 }))
      const routers: KvRouter[] = []
      for (let late = 0; late < 3; late++) {
        const router = routerOf(random)
        routers.push(router)
        router.workerJoined(card)
        const plane = new TcpRequestPlane({
          backoffMsMin: 1,
          backoffMsMax: 2,
          onKvEvents: (workerId, batch) => router.kvEvents(workerId, batch),
        })
        plane.workerJoined(card)
        ends.push(() => plane.close())
        for (let i = 0; i < 40; i++) {
          engine.step()
          if (i % 8 === 0) await new Promise((resolve) => setImmediate(resolve))
        }
        // Discovery has lost the worker for a moment, so that all blocks are announced again.
        if (late === 1) {
          plane.workerLeft(card.workerId, 'expired')
          router.workerLeft(card.workerId, 'expired')
          router.workerJoined(card)
          plane.workerJoined(card)
        }
      }
      loss = 0
      for (const dpRank of [0, 1]) engine.move(dpRank, 0, engine.held[dpRank]?.[0] === 5 ? 6 : 5)
      await until('all routers know', () =>
        routers.every(
          (router) => JSON.stringify(knownBy(router, card, 2)) === JSON.stringify(truth(engine)),
        ),
      )
      for (const router of routers) expect(router.status().kvEventErrors).toBe(0)
    },
  )

  it('in one process - a worker that comes back is announced with all its blocks', () => {
    const random = seededRandom(1)
    const router = routerOf(random)
    const card = { workerId: workerIdOf(7) } as WorkerCard
    const full: WorkerCard = {
      ...card,
      mode: 'agg',
      host: '',
      port: 1,
      engine: { model: 'm', kvCacheBlockSize: BLOCK_TOKENS },
      engineName: 'events',
      publishesKvEvents: true,
      version: '0',
    }
    const stored = changeOf(0, 0, 5)
    if (stored === null) throw new Error('no change')
    const snapshot: KvEventBatch = {
      sequence: 3,
      dpRank: 0,
      events: [{ kind: 'cleared' }, stored],
    }
    const plane = new LocalRequestPlane({
      onKvEvents: (workerId, batch) => router.kvEvents(workerId, batch),
    })
    plane.addWorker(full.workerId, {
      serve: () => ({ cancel: () => undefined }),
      kvSnapshot: () => listedSnapshot(snapshot),
    })
    router.workerJoined(full)
    expect(knownBy(router, full, 1)[0]?.[0]).toBe(0)
    plane.tellAll(full.workerId)
    expect(knownBy(router, full, 1)[0]?.[0]).toBe(5)
  })
})
