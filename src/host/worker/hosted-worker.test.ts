import { afterEach, describe, expect, it } from 'vitest'
import type { BatonError, WorkerId } from '../../base/index.ts'
import { SimEngine } from '../../simengine/index.ts'
import { NaivePrefixIndex } from '../../kv/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type { Chunk, GenerateRequest, RequestPlane, WorkerCard } from '../../request/index.ts'
import { MemoryDiscovery } from '../../discovery/memory-discovery.ts'
import type { WorkerEvent, WorkerObserver } from '../../worker/index.ts'
import { HostedWorker } from './hosted-worker.ts'
import type { WorkerPlane } from './hosted-worker.ts'
import { osClock } from '../../os/os-clock.ts'
import { LocalRequestPlane } from '../../network/plane/local-request-plane.ts'
import { TcpRequestPlane } from '../../network/plane/tcp-request-plane.ts'
import { until } from '../../../test/until.ts'

const ends: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

/** A router's view of one worker, fed by a request plane. */
class Mirror {
  readonly index = new NaivePrefixIndex()
  readonly loads: LoadReport[] = []
  #isConnected: () => void = () => undefined
  readonly connected = new Promise<void>((resolve) => (this.#isConnected = resolve))

  readonly onConnected = (): void => this.#isConnected()
  readonly onLoad = (_: WorkerId, report: LoadReport): void => void this.loads.push(report)
  readonly onKvEvents = (_: WorkerId, batch: KvEventBatch): void => {
    for (const event of batch.events) this.index.apply(0, event)
  }

  get blocks(): number {
    return this.index.stats().blocks
  }
}

function requestOf(requestId: string, seed: number, maxTokens = 8): GenerateRequest {
  return {
    requestId,
    model: 'sim',
    tokenIds: Uint32Array.from({ length: 200 }, (_, i) => seed * 1000 + i),
    sampling: {},
    stop: { maxTokens },
    output: {},
    eosTokenIds: [],
    routing: {},
  }
}

function send(plane: RequestPlane, workerId: WorkerId, request: GenerateRequest): Promise<string> {
  return new Promise((resolve) => {
    plane.send(workerId, request, {
      onToken: () => undefined,
      onChunk: (chunk: Chunk) => chunk.finish !== undefined && resolve(chunk.finish),
      onError: (error: BatonError) => resolve(error.code),
    })
  })
}

async function startWorker(
  plane: WorkerPlane,
  engine = new SimEngine({ clock: osClock, model: 'sim', blockCount: 64, blockTokens: 16 }),
  observe?: WorkerObserver,
): Promise<{ hosted: HostedWorker; card: WorkerCard }> {
  const hosted = new HostedWorker({
    engine,
    engineName: 'sim',
    mode: 'agg',
    plane,
    discovery: new MemoryDiscovery(),
    version: '0.0.0',
    shutdown: { routerGraceMs: 0 },
    ...(observe === undefined ? {} : { observe }),
  })
  ends.push(() => hosted.stop())
  return { hosted, card: await hosted.start() }
}

describe('HostedWorker - blocks and load reach the routers', () => {
  it('a router that connects late - has the same blocks as one that was there from the start', async () => {
    const { card } = await startWorker({ kind: 'tcp', host: '127.0.0.1', port: 0 })
    const connect = (): { mirror: Mirror; plane: TcpRequestPlane } => {
      const mirror = new Mirror()
      const plane = new TcpRequestPlane(mirror)
      ends.push(() => plane.close())
      plane.workerJoined(card)
      return { mirror, plane }
    }
    const early = connect()
    await early.mirror.connected
    // 64 blocks hold four of these prompts, so blocks are evicted too.
    for (let i = 0; i < 9; i++) {
      expect(await send(early.plane, card.workerId, requestOf(`a${i}`, i))).toBe('length')
    }
    const late = connect()
    await late.mirror.connected
    expect(await send(late.plane, card.workerId, requestOf('b', 77))).toBe('length')
    await until('the same blocks', () => late.mirror.blocks === early.mirror.blocks)
    expect(late.mirror.blocks).toBeGreaterThan(20)
    expect(late.mirror.blocks).toBeLessThanOrEqual(64)
    await until('idle again', () => early.mirror.loads.at(-1)?.runningRequests === 0)
  })

  it('in one process - the same with direct calls; after stop the plane does not know the worker', async () => {
    const mirror = new Mirror()
    const plane = new LocalRequestPlane(mirror)
    const { hosted, card } = await startWorker({ kind: 'local', plane })
    expect(await send(plane, card.workerId, requestOf('a', 1))).toBe('length')
    expect(mirror.blocks).toBe(12)
    const running = send(plane, card.workerId, requestOf('b', 2, 40))
    const stopped = hosted.stop()
    expect(await running).toBe('length')
    expect((await stopped).exitCode).toBe(0)
    expect(await send(plane, card.workerId, requestOf('c', 3))).toBe('backend.worker_unavailable')
  })
})

describe('HostedWorker - behind another address', () => {
  it.each([
    [{ host: 'node-7.example' }, null],
    [{ host: '10.1.2.3', port: 4444 }, 4444],
  ] as const)('advertised %j - is the address on the card', async (advertised, port) => {
    const { card } = await startWorker({ kind: 'tcp', host: '127.0.0.1', port: 0, advertised })
    expect(card.host).toBe(advertised.host)
    if (port === null) expect(card.port).toBeGreaterThan(0)
    else expect(card.port).toBe(port)
  })
})

describe('HostedWorker - a frontend that is lost', () => {
  it('over TCP - its requests are freed, and the engine is not asked to abort', async () => {
    const aborted: string[] = []
    const engine = new SimEngine({ clock: osClock, model: 'sim', blockCount: 64, blockTokens: 16 })
    engine.abort = (requestId) => void aborted.push(requestId)
    const { card, hosted } = await startWorker({ kind: 'tcp', host: '127.0.0.1', port: 0 }, engine)
    const plane = new TcpRequestPlane({})
    plane.workerJoined(card)
    const held = (): number | undefined =>
      engine.metrics().find(({ name }) => name === 'kv_blocks_active')?.value
    const ended = send(plane, card.workerId, requestOf('a', 1, 500))
    await until('running', () => held() === 13)
    await plane.close()
    await ended
    await until('the KV is released', () => held() === 0 && hosted.worker.health().inFlight === 0)
    expect(aborted).toEqual([])
  })
})

describe('HostedWorker - files of its model that cannot be read', () => {
  it('the worker serves, its card states no tokenizer, and its observer is told', async () => {
    const events: WorkerEvent[] = []
    const engine = new SimEngine({ clock: osClock, model: 'sim', modelPath: '/nowhere' })
    const { card } = await startWorker(
      { kind: 'tcp', host: '127.0.0.1', port: 0 },
      engine,
      (event) => events.push(event),
    )
    expect(card.agreement?.tokenizer).toBeUndefined()
    expect(events.filter(({ kind }) => kind === 'model-unreadable')).toMatchObject([
      { error: { message: expect.stringContaining('/nowhere does not exist') as string } },
    ])
  })
})

describe('HostedWorker - a start that fails', () => {
  it('a port in use - is reported, and nothing is left behind', async () => {
    const { card } = await startWorker({ kind: 'tcp', host: '127.0.0.1', port: 0 })
    const second = startWorker({ kind: 'tcp', host: '127.0.0.1', port: card.port })
    await expect(second).rejects.toMatchObject({ code: 'host.address_in_use' })
  })
})
