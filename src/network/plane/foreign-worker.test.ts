/** A foreign or older worker that sends what no engine may send: its request ends, and no other. */
import { afterEach, describe, expect, it } from 'vitest'
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
