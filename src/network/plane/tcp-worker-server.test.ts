import { createServer, connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'

import { workerIdOf } from '../../base/index.ts'
import type { BatonError } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import { finishChunk } from '../../request/index.ts'
import {
  FrameDecoder,
  FrameWriter,
  Handshake,
  TAG,
  batonLimits,
  encodeRequest,
} from '../../wire/index.ts'
import type { ReplyPort, WorkerHandler } from '../../wire/index.ts'
import { until } from '../../testing/kv-transport-kit.ts'
import {
  CollectingSink,
  WORKER,
  countingHandler,
  planeRequest,
} from '../../testing/request-plane-kit.ts'
import { TcpRequestPlane } from './tcp-request-plane.ts'
import type { TcpRequestPlaneOptions } from './tcp-request-plane.ts'
import { TcpWorkerServer } from './tcp-worker-server.ts'
import type { TcpWorkerServerOptions } from './tcp-worker-server.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function listen(options: Partial<TcpWorkerServerOptions> = {}): Promise<TcpWorkerServer> {
  const server = await TcpWorkerServer.listen({ handler: countingHandler, ...options })
  cleanups.push(() => server.close())
  return server
}

function planeTo(
  server: { host: string; port: number },
  options: TcpRequestPlaneOptions = {},
): TcpRequestPlane {
  const plane = new TcpRequestPlane({ backoffMsMin: 5, backoffMsMax: 20, ...options })
  plane.workerJoined({ workerId: WORKER, host: server.host, port: server.port })
  cleanups.push(() => plane.close())
  return plane
}

/** A frontend made of raw frames, to see and send what a real one would not. */
class BareFrontend {
  readonly frames: { tag: number; length: number; turn: number }[] = []
  readonly writer = new FrameWriter()
  readonly socket: Socket
  isReady = false
  isClosed = false
  turn = 0

  constructor(server: { host: string; port: number }, windowItems = 1_000_000) {
    const handshake = new Handshake({
      side: 'initiator',
      self: {
        role: 'frontend',
        software: '',
        capabilities: [],
        limits: { streamWindowItems: windowItems },
      },
      nonce: new Uint8Array(16),
    })
    const decoder = new FrameDecoder(batonLimits(), {
      onFrame: (tag, bytes, start, end) => {
        if (handshake.isReady) this.frames.push({ tag, length: end - start, turn: this.turn })
        else handshake.onFrame(tag, bytes, start, end, this.writer)
        this.isReady = handshake.isReady
      },
    })
    this.socket = connect({ host: server.host, port: server.port, noDelay: true })
    this.socket.on('data', (piece: Buffer) => {
      this.turn += 1
      decoder.push(piece)
      this.flush()
    })
    this.socket.on('close', () => (this.isClosed = true))
    this.socket.on('error', () => undefined)
    handshake.begin(this.writer)
    this.flush()
    cleanups.push(() => this.socket.destroy())
  }

  flush(): void {
    const bytes = this.writer.take()
    if (bytes) this.socket.write(bytes)
  }
}

function openHandler(): WorkerHandler & { replies: ReplyPort[]; cancels: string[] } {
  const replies: ReplyPort[] = []
  const cancels: string[] = []
  return {
    replies,
    cancels,
    serve: (_request, reply) => {
      replies.push(reply)
      return { cancel: (kind) => void cancels.push(kind), drop: () => void cancels.push('drop') }
    },
  }
}

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

const LOAD: LoadReport = {
  dpRank: 0,
  activeBlocks: 1,
  totalBlocks: 2,
  runningRequests: 3,
  queuedRequests: 4,
  prefillTokensInFlight: 5,
}

describe('worker server over TCP', () => {
  it('tokens - one frame per engine step for all streams', async () => {
    const handler = openHandler()
    const bare = new BareFrontend(await listen({ handler }))
    await until('ready', () => bare.isReady)
    for (let i = 0; i < 64; i++) encodeRequest(bare.writer, i, planeRequest(`r${i}`, [1]))
    bare.flush()
    await until('served', () => handler.replies.length === 64)
    for (let step = 0; step < 5; step++) {
      for (const reply of handler.replies) reply.token(step)
      await until('a frame', () => bare.frames.length > step)
    }
    expect(bare.frames.map(({ tag, length }) => [tag, length])).toEqual(
      Array(5).fill([TAG.TOKENS, 64 * 8]),
    )
  })

  it('credit - without more credit a reader gets its window, and the worker buffers a bounded rest', async () => {
    const handler = openHandler()
    const bare = new BareFrontend(await listen({ handler }), 10)
    await until('ready', () => bare.isReady)
    encodeRequest(bare.writer, 1, planeRequest('r', [1]))
    bare.flush()
    await until('served', () => handler.replies.length === 1)
    const reply = handler.replies[0]!
    for (let i = 0; i < 12; i++) reply.token(i)
    expect(reply.isWritable).toBe(false)
    let isDrained = false
    void reply.drained().then(() => (isDrained = true))
    const tokenBytes = (): number =>
      bare.frames.reduce((sum, { tag, length }) => sum + (tag === TAG.TOKENS ? length : 0), 0)
    await until('the window', () => tokenBytes() === 80)
    bare.writer.begin(TAG.CREDIT).u32(1).u32(5).end()
    bare.flush()
    await until('the rest', () => tokenBytes() === 96)
    expect([isDrained, reply.isWritable]).toEqual([true, true])
    for (let i = 0; i < 100; i++) reply.token(i)
    await until('the error', () => bare.frames.at(-1)?.tag === TAG.ERROR)
    expect(handler.cancels).toEqual(['kill'])
  })

  it('credit - a reader that keeps up gets 20,000 tokens through a window of 16', async () => {
    const handler = openHandler()
    const plane = planeTo(await listen({ handler }), { streamWindowItems: 16 })
    const sink = new CollectingSink()
    plane.send(WORKER, planeRequest('r', [1]), sink)
    await until('served', () => handler.replies.length === 1)
    const reply = handler.replies[0]!
    for (let i = 0; i < 20_000; i++) {
      if (!reply.isWritable) await reply.drained()
      reply.token(i)
    }
    reply.chunk(finishChunk('length'))
    await sink.ended
    expect(sink.tokens).toEqual([...Array(20_000).keys()])
  })

  it('KV events and load - reach every frontend in order; a late one starts with a snapshot', async () => {
    const snapshot: KvEventBatch = { ...stored(2), events: [{ kind: 'cleared' }] }
    const handler = { ...countingHandler, kvSnapshot: () => [snapshot] }
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

  it('a late frontend - is told once per connection that snapshot and loads are complete', async () => {
    const snapshot: KvEventBatch = { ...stored(2), events: [{ kind: 'cleared' }] }
    const told: string[] = []
    const server = await listen({
      handler: { ...countingHandler, kvSnapshot: () => [snapshot], loadSnapshot: () => [LOAD] },
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
    await until('what comes later', () => told.includes('events 3'))
    expect(told).toEqual(['connected', 'events 2', 'load', 'caught up', 'events 3'])
  })

  it('KV events - all are sent again to a frontend that learns of a changed card', async () => {
    const snapshot: KvEventBatch = { ...stored(2), events: [{ kind: 'cleared' }] }
    const server = await listen({ handler: { ...countingHandler, kvSnapshot: () => [snapshot] } })
    let snapshots = 0
    const plane = planeTo(server, { onKvEvents: () => (snapshots += 1) })
    await until('the first', () => snapshots === 1)
    plane.workerJoined({ workerId: WORKER, host: server.host, port: server.port })
    await until('another', () => snapshots === 2)
  })

  it('KV events - after a gap nothing is delivered until a complete snapshot', async () => {
    let last = 0
    const kvSnapshot = (): KvEventBatch[] => [{ ...stored(last), events: [{ kind: 'cleared' }] }]
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
    const kvSnapshot = (): KvEventBatch[] => [{ ...stored(2), events: [{ kind: 'cleared' }] }]
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

  it('a frontend that vanishes - its requests are dropped, not killed, and no others', async () => {
    const handler = openHandler()
    const gone: BatonError[] = []
    const server = await listen({ handler, onPeerGone: (reason) => gone.push(reason) })
    const [mortal, other] = [planeTo(server), planeTo(server)]
    const sink = new CollectingSink()
    mortal.send(WORKER, planeRequest('a', [1]), new CollectingSink())
    other.send(WORKER, planeRequest('b', [1]), sink)
    await until('served', () => handler.replies.length === 2)
    await mortal.close()
    await until('dropped', () => handler.cancels.length === 1)
    expect([handler.cancels, server.streamCount, gone.length]).toEqual([['drop'], 1, 1])
    for (const reply of handler.replies) reply.chunk(finishChunk('stop'))
    expect(await sink.ended).toBe('stop')
    expect(server.streamCount).toBe(0)
  })

  it('a worker that comes back - is connected again; requests fail at once in between', async () => {
    const first = await TcpWorkerServer.listen({ handler: countingHandler })
    const plane = planeTo(first)
    const ask = async (): Promise<string> => {
      const sink = new CollectingSink()
      plane.send(WORKER, planeRequest('r', [2]), sink)
      return sink.ended
    }
    expect(await ask()).toBe('length')
    await first.close()
    await until('lost', () => !plane.isConnected(WORKER))
    expect(await ask()).toMatch(/^transport\./)
    await listen({ port: first.port })
    await until('back', () => plane.isConnected(WORKER))
    expect(await ask()).toBe('length')
  })

  it('drain - refuses new requests, ends running ones', async () => {
    const handler = openHandler()
    const server = await listen({ handler })
    const drained: string[] = []
    const plane = planeTo(server, { onDraining: (id) => drained.push(id) })
    const running = new CollectingSink()
    plane.send(WORKER, planeRequest('a', [1]), running)
    await until('served', () => handler.replies.length === 1)
    server.drain()
    await until('told', () => drained.length === 1)
    const late = new CollectingSink()
    plane.send(WORKER, planeRequest('b', [1]), late)
    expect(await late.ended).toBe('backend.worker_draining')
    handler.replies[0]!.chunk(finishChunk('stop'))
    expect(await running.ended).toBe('stop')
  })

  it('limits - too many requests of one frontend are refused', async () => {
    const handler = openHandler()
    const plane = planeTo(await listen({ handler, streamsMax: 2 }))
    const sinks = [1, 2, 3].map(() => new CollectingSink())
    for (const sink of sinks) plane.send(WORKER, planeRequest('r', [1]), sink)
    expect(await sinks[2]!.ended).toBe('capacity.worker_overloaded')
  })

  it('a wrong secret or another worker - the request fails with the reason', async () => {
    const server = await listen({ secret: 'a', workerId: '9' })
    for (const [secret, text] of [
      ['b', /shared secret/],
      ['a', /worker 9|but 9/],
    ] as const) {
      const plane = planeTo(server, { secret })
      const sink = new CollectingSink()
      plane.send(WORKER, planeRequest('r', [1]), sink)
      await sink.ended
      expect(sink.errors[0]?.message).toMatch(text)
    }
  })

  it('no server or a silent one - the request fails in time', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1')
    await new Promise((resolve) => silent.once('listening', resolve))
    cleanups.push(() => silent.close())
    const { port } = silent.address() as AddressInfo
    const plane = new TcpRequestPlane({ connectTimeoutMs: 700 })
    cleanups.push(() => plane.close())
    plane.workerJoined({ workerId: WORKER, host: '127.0.0.1', port })
    plane.workerJoined({ workerId: workerIdOf(8), host: '127.0.0.1', port: 1 })
    const [quiet, nobody] = [new CollectingSink(), new CollectingSink()]
    plane.send(WORKER, planeRequest('r', [1]), quiet)
    plane.send(workerIdOf(8), planeRequest('r', [1]), nobody)
    expect(await quiet.ended).toBe('transport.connection_timeout')
    expect(await nobody.ended).toBe('transport.cannot_connect')
  })

  it('a peer that falls silent - is disconnected after the deadline', async () => {
    const timing = { pingEveryMs: 50, silenceMs: 400, handshakeMs: 5_000 }
    const gone: string[] = []
    const server = await listen({ timing, onPeerGone: (reason) => gone.push(reason.message) })
    const bare = new BareFrontend(server)
    await until('ready', () => bare.isReady)
    const healthy = planeTo(server, { timing })
    await until('given up', () => bare.isClosed)
    expect(gone[0]).toMatch(/nothing received/)
    expect(bare.frames.some(({ tag }) => tag === TAG.PING)).toBe(true)
    expect(healthy.isConnected(WORKER)).toBe(true)
  })

  it('a broken frame - closes the connection with a named reason', async () => {
    const gone: BatonError[] = []
    const server = await listen({ onPeerGone: (reason) => gone.push(reason) })
    const bare = new BareFrontend(server)
    await until('ready', () => bare.isReady)
    bare.writer.begin(TAG.REQUEST).end(2 ** 31)
    bare.flush()
    await until('closed', () => bare.isClosed)
    expect(gone[0]?.data['reason']).toBe('frame.too_long')
    expect(bare.frames.at(-1)?.tag).toBe(TAG.GOODBYE)
  })
})
