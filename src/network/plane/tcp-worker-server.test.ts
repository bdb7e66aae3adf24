import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  BareFrontend,
  afterTest,
  listen,
  openHandler,
  planeTo,
} from '../../../test/network/tcp-worker-kit.ts'
import { BatonError, workerIdOf } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import { until } from '../../testing/kv-transport-kit.ts'
import {
  CollectingSink,
  WORKER,
  countingHandler,
  planeRequest,
} from '../../testing/request-plane-kit.ts'
import { TAG, encodeRequest } from '../../wire/index.ts'
import { TcpRequestPlane } from './tcp-request-plane.ts'
import { TcpWorkerServer } from './tcp-worker-server.ts'

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
    await until('the worker is connected again', () => plane.isConnected(WORKER))
    expect(await ask()).toBe('length')
  })

  it('a worker that is refused from now on - finishes its running replies, then learns why', async () => {
    const handler = openHandler()
    const gone: BatonError[] = []
    const server = await listen({ handler, onPeerGone: (reason) => gone.push(reason) })
    const down: string[] = []
    const plane = planeTo(server, { onDisconnected: (_, { code }) => down.push(code) })
    const sink = new CollectingSink()
    plane.send(WORKER, planeRequest('r', [1]), sink)
    await until('served', () => handler.replies.length === 1)
    const why = new BatonError('backend.worker_differs', 'block size 32 instead of 16')
    plane.workerRefused({ workerId: WORKER, host: server.host, port: server.port }, why)
    expect([down, plane.isConnected(WORKER)]).toEqual([['backend.worker_differs'], false])
    handler.replies[0]?.token(7)
    handler.replies[0]?.chunk(finishChunk('stop'))
    expect([await sink.ended, sink.tokens]).toEqual(['stop', [7]])
    await until('told', () => gone.length === 1)
    expect(String(gone[0]?.message)).toContain('block size 32')
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
    await until('the drain is reported', () => drained.length === 1)
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
    afterTest(() => silent.close())
    const { port } = silent.address() as AddressInfo
    const plane = new TcpRequestPlane({ connectTimeoutMs: 700 })
    afterTest(() => plane.close())
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

  it('a silent peer - is asked every 5 s, kept for 20 s, and then disconnected', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const gone: BatonError[] = []
    const server = await listen({ onPeerGone: (reason) => gone.push(reason) })
    const bare = new BareFrontend(server)
    await until('ready', () => bare.isReady && server.connectionCount === 1)
    vi.advanceTimersByTime(20_000)
    expect(gone).toEqual([])
    const isPing = ({ tag }: { tag: number }): boolean => tag === TAG.PING
    await until('the questions', () => bare.frames.filter(isPing).length === 4)
    vi.advanceTimersByTime(1_000)
    expect(gone).toMatchObject([{ code: 'transport.disconnected', data: { silenceMs: 20_000 } }])
    await until('closed', () => bare.isClosed)
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
