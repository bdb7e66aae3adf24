/** A foreign or older worker that sends what no engine may send: its request ends, and no other. */
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import { finishChunk, tokenChunk, usageOf } from '../../request/index.ts'
import type { Chunk } from '../../request/index.ts'
import { CollectingSink, WORKER, planeRequest } from '../../testing/request-plane-kit.ts'
import type { ReplyPort, WorkerHandler } from '../../wire/index.ts'
import { until } from '../../../test/until.ts'
import { LocalRequestPlane } from './local-request-plane.ts'
import { TcpRequestPlane } from './tcp-request-plane.ts'
import { TcpWorkerServer } from './tcp-worker-server.ts'

const cleanups: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

/** Keeps every reply, so that the test can write to it; nothing is checked on this side. */
class ForeignWorker implements WorkerHandler {
  readonly replies = new Map<string, ReplyPort>()
  readonly cancelled: string[] = []

  serve({ requestId }: { requestId: string }, reply: ReplyPort) {
    this.replies.set(requestId, reply)
    return { cancel: () => void this.cancelled.push(requestId) }
  }
}

async function connected() {
  const worker = new ForeignWorker()
  const server = await TcpWorkerServer.listen({ handler: worker })
  cleanups.push(() => server.close())
  let disconnects = 0
  const plane = new TcpRequestPlane({ onDisconnected: () => disconnects++ })
  cleanups.push(() => plane.close())
  plane.workerJoined({ workerId: WORKER, host: server.host, port: server.port })
  const send = async (requestId: string, sink = new CollectingSink()) => {
    plane.send(WORKER, planeRequest(requestId, [1]), sink)
    await until('the request is there', () => worker.replies.has(requestId))
    return { sink, reply: worker.replies.get(requestId) as ReplyPort }
  }
  return { worker, send, disconnects: () => disconnects }
}

describe('TcpRequestPlane - a foreign worker', () => {
  it.each<[string, object, string]>([
    ['ids below zero', { tokenIds: [-1] }, 'token-invalid'],
    ['ids that are no u32', { tokenIds: [2 ** 40] }, 'token-invalid'],
    ['ids and a text', { tokenIds: [5], text: 'x' }, 'chunk-malformed'],
    ['usage of text', { tokenIds: [], usage: 'much' }, 'usage-invalid'],
    ['usage of NaN', { tokenIds: [], text: 'x', usage: usageOf(NaN, 1) }, 'usage-invalid'],
    ['more cached than prompted', { tokenIds: [], usage: usageOf(1, 1, 2) }, 'cached-over-prompt'],
    ['logprobs of nothing', { tokenIds: [5], logprobs: [null] }, 'logprobs-mismatch'],
    ['prompt logprobs of nothing', { tokenIds: [], promptLogprobs: 7 }, 'prompt-logprobs-invalid'],
    ['a hand-over of nothing', { tokenIds: [], prefillResult: 7 }, 'payload-invalid'],
    ['an offer that is none', { tokenIds: [], prefillResult: { kvOffer: {} } }, 'payload-invalid'],
    ['a stop reason that is none', { tokenIds: [], stopReason: [] }, 'payload-invalid'],
  ])('%s - ends its own request with the violated rule', async (_name, chunk, rule) => {
    const { worker, send, disconnects } = await connected()
    const [guilty, innocent] = [await send('bad'), await send('good')]
    guilty.reply.chunk(chunk as Chunk)
    expect(await guilty.sink.ended).toBe('backend.contract_violation')
    expect(guilty.sink.errors[0]?.data).toMatchObject({ rule })
    await until('it is told to stop', () => worker.cancelled.includes('bad'))
    innocent.reply.chunk(tokenChunk(9))
    innocent.reply.chunk(finishChunk('stop'))
    expect(await innocent.sink.ended).toBe('stop')
    expect([guilty.sink.callsAfterEnd, disconnects()]).toEqual([0, 0])
  })

  it('valid items - pass', async () => {
    const { send } = await connected()
    const { sink, reply } = await send('good')
    const { sink: vectors, reply: embeds } = await send('vector')
    reply.chunk({ tokenIds: [], text: 'x', usage: usageOf(1, 1, 1), engineData: { a: [null] } })
    reply.chunk(finishChunk('eos', { stopReason: 7, prefillResult: { cachedTokens: 1 } }))
    embeds.chunk(finishChunk('stop', { embedding: Float32Array.of(1), usage: usageOf(1, 0) }))
    expect(await Promise.all([sink.ended, vectors.ended])).toEqual(['eos', 'stop'])
  })
})

/** Passes everything on between a frontend and a worker, and can say something to the frontend in the worker's name. */
async function interloper(workerPort: number) {
  const sockets = new Set<Socket>()
  const proxy = createServer((near) => {
    const far = connect(workerPort, '127.0.0.1')
    near.pipe(far).pipe(near)
    for (const socket of [near, far]) sockets.add(socket.on('error', () => socket.destroy()))
    frontends.push(near)
  })
  const frontends: Socket[] = []
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  cleanups.push(async () => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  const say = (bytes: Uint8Array): void => void frontends[0]?.write(bytes)
  return { port: (proxy.address() as AddressInfo).port, say }
}

describe('TcpRequestPlane - a worker that violates the protocol', () => {
  it.each([true, false])(
    'its connection is closed, its streams may continue elsewhere, no others end (checksums: %s)',
    async (checksums) => {
      const other = workerIdOf(8)
      const workers = new Map([WORKER, other].map((id) => [id, new ForeignWorker()]))
      const lost: string[] = []
      const plane = new TcpRequestPlane({ checksums, onDisconnected: (id) => void lost.push(id) })
      cleanups.push(() => plane.close())
      let say: (bytes: Uint8Array) => void = () => undefined
      for (const [workerId, handler] of workers) {
        const server = await TcpWorkerServer.listen({ handler })
        cleanups.push(() => server.close())
        const between = workerId === WORKER ? await interloper(server.port) : server
        if ('say' in between) ({ say } = between)
        plane.workerJoined({ workerId, host: '127.0.0.1', port: between.port })
      }
      const sinks = [new CollectingSink(), new CollectingSink(), new CollectingSink()] as const
      const [first, second, innocent] = sinks
      plane.send(WORKER, planeRequest('a', [1]), first)
      plane.send(WORKER, planeRequest('b', [1]), second)
      plane.send(other, planeRequest('c', [1]), innocent)
      const replyOf = (id: string): ReplyPort | undefined =>
        [...workers.values()].flatMap(({ replies }) => replies.get(id) ?? [])[0]
      await until('all are served', () => ['a', 'b', 'c'].every((id) => replyOf(id)))
      replyOf('a')?.token(5)
      await until('its token', () => first.tokens.length === 1)
      // Neither a frame nor a record has this length.
      say(new Uint8Array(64).fill(0xff))
      for (const sink of [first, second]) {
        expect(await sink.ended).toBe('transport.protocol')
        expect(sink.errors.map(({ row }) => row.migratable)).toEqual([true])
        expect(sink.callsAfterEnd).toBe(0)
      }
      await until('its connection is closed', () => lost.length > 0)
      replyOf('c')?.chunk(finishChunk('stop'))
      expect([await innocent.ended, lost]).toEqual(['stop', [WORKER]])
    },
  )
})

/** Throws when it is told the end. */
class ThrowingSink extends CollectingSink {
  override onChunk(chunk: Chunk): void {
    if (chunk.finish !== undefined) throw new Error('no')
    super.onChunk(chunk)
  }
}

describe('request planes - a sink that throws at the end', () => {
  it('over TCP - is told an error', async () => {
    const { send } = await connected()
    const { sink, reply } = await send('r', new ThrowingSink())
    reply.chunk(finishChunk('stop'))
    expect(await sink.ended).toBe('runtime.internal')
  })

  it('in the process - is told an error', async () => {
    const plane = new LocalRequestPlane()
    const worker = new ForeignWorker()
    plane.addWorker(WORKER, worker)
    const sink = new ThrowingSink()
    plane.send(WORKER, planeRequest('r', [1]), sink)
    worker.replies.get('r')?.chunk(finishChunk('stop'))
    expect(sink.errors.map(({ code }) => code)).toEqual(['runtime.internal'])
  })
})
