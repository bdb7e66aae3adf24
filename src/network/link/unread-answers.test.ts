/** Authenticated peers that send and do not read: what they are sent stays bounded. */
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as pauseOf } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'

import { WORKER, countingHandler } from '../../testing/request-plane-kit.ts'
import { FrameDecoder, FrameWriter, TAG, batonLimits, encodeHello } from '../../wire/index.ts'
import type { WorkerHandler } from '../../wire/index.ts'
import { listedSnapshot } from '../../../test/network/listed-snapshot.ts'
import { until } from '../../../test/until.ts'
import { TcpRequestPlane } from '../plane/tcp-request-plane.ts'
import { TcpWorkerServer } from '../plane/tcp-worker-server.ts'

const MIB = 1024 * 1024
const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

/** A frontend that has authenticated, and the tags of what it has read since. */
async function frontend(handler: WorkerHandler): Promise<{ socket: Socket; tags: number[] }> {
  const timing = { pingEveryMs: 60_000, silenceMs: 3_000, handshakeMs: 60_000 }
  const server = await TcpWorkerServer.listen({ handler, timing })
  ends.push(() => server.close())
  const tags: number[] = []
  const decoder = new FrameDecoder(batonLimits(), { onFrame: (tag) => tags.push(tag) })
  const socket = connect(server.port, '127.0.0.1')
  ends.push(() => socket.destroy())
  socket.on('error', () => undefined)
  socket.on('data', (piece: Buffer) => decoder.push(piece))
  socket.write(helloAs('frontend'))
  await until('the handshake', () => tags.includes(TAG.AUTH))
  return { socket, tags }
}

/** HELLO and AUTH of a peer without a secret. */
function helloAs(role: 'frontend' | 'worker', workerId?: string): Uint8Array {
  const writer = new FrameWriter()
  encodeHello(writer, {
    version: 1,
    versionOldest: 1,
    nonce: new Uint8Array(16),
    role,
    software: 'test',
    capabilities: ['kv-events'],
    limits: {},
    authRequired: false,
    ...(workerId === undefined ? {} : { workerId }),
  })
  writer.begin(TAG.AUTH).end()
  return writer.take()!
}

/** One piece of whole frames, of 64 KiB or the given number of frames. */
function manyOf(
  tag: number,
  payloadBytes: number,
  count = (64 * 1024) / (8 + payloadBytes),
): Buffer {
  const writer = new FrameWriter()
  for (let i = 0; i < count; i++) writer.begin(tag).bytes(new Uint8Array(payloadBytes)).end()
  return Buffer.from(writer.take()!)
}

describe('a worker that sends and does not read', () => {
  it('PING - the frontend keeps a bounded number of answers', async () => {
    let received = 0
    let last = ''
    const worker = createServer((socket) => {
      socket.on('error', () => undefined)
      const decoder = new FrameDecoder(batonLimits(), {
        onFrame: (tag, bytes, start, end) => {
          if (tag === TAG.AUTH) void flood(socket)
          if (tag === TAG.PONG) last = Buffer.from(bytes.subarray(start, end)).toString()
        },
      })
      socket.on('data', (piece: Buffer) => {
        received += piece.length
        decoder.push(piece)
      })
      socket.write(helloAs('worker', WORKER))
    })
    const flood = async (socket: Socket): Promise<void> => {
      socket.pause()
      const piece = manyOf(TAG.PING, 56)
      for (let sent = 0; sent < 256 * MIB; sent += piece.length) {
        if (!socket.write(piece)) await new Promise((resolve) => socket.once('drain', resolve))
      }
      socket.resume()
      // Answered when the frontend has got rid of the other answers.
      const asking = setInterval(() => {
        socket.write(new FrameWriter().begin(TAG.PING).bytes(Buffer.from('last')).end().take()!)
        if (last === 'last') clearInterval(asking)
      }, 20)
      ends.push(() => clearInterval(asking))
    }
    await new Promise<void>((resolve) => worker.listen(0, '127.0.0.1', resolve))
    ends.push(() => worker.close())
    const plane = new TcpRequestPlane({})
    ends.push(() => plane.close())
    const { port } = worker.address() as AddressInfo
    plane.workerJoined({ workerId: WORKER, host: '127.0.0.1', port })
    await until('the last answer', () => last === 'last')
    // 64 MiB, and what the kernel buffers.
    expect(received).toBeLessThan(112 * MIB)
  })
})

describe('a frontend that sends and does not read', () => {
  it('PING - the worker stops reading it, and disconnects it', async () => {
    const { socket } = await frontend(countingHandler)
    socket.pause()
    const piece = manyOf(TAG.PING, 56)
    let sent = 0
    const closed = new Promise((resolve) => socket.once('close', resolve))
    while (!socket.destroyed && sent < 512 * MIB) {
      sent += piece.length
      if (socket.write(piece)) continue
      await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed])
    }
    // 64 MiB, and some megabytes that the kernel buffers of each direction.
    expect(sent).toBeLessThan(112 * MIB)
  })

  it('PING - one that reads slowly is not disconnected, however long it has to read', async () => {
    const { socket, tags } = await frontend(countingHandler)
    socket.pause()
    const piece = manyOf(TAG.PING, 56)
    let isStalled = false
    for (let sent = 0; sent < 512 * MIB && !isStalled; sent += piece.length) {
      if (socket.write(piece)) continue
      const read = new Promise<boolean>((resolve) => socket.once('drain', () => resolve(false)))
      // The worker reads nothing more.
      isStalled = await Promise.race([read, pauseOf(1_000).then(() => true)])
    }
    tags.length = 0
    // For more than twice as long as a peer may read nothing.
    for (let reads = 0; reads < 350 && !socket.destroyed; reads++) {
      socket.read(64 * 1024)
      await pauseOf(20)
    }
    expect(socket.destroyed).toBe(false)
    socket.resume()
    socket.write(manyOf(TAG.PING, 8, 1))
    await until('the last answer', () => tags.length > 0)
  })

  it.each([
    ['cards', TAG.CARD_ASK, TAG.CARD],
    ['snapshots', TAG.KV_SNAPSHOT, TAG.KV_EVENTS],
  ])(
    'a thousand questions for %s in one piece - are answered once or twice',
    async (_, ask, tag) => {
      let made = 0
      const batch = { dpRank: 0, sequence: 1, events: [{ kind: 'cleared' as const }] }
      const { socket, tags } = await frontend({
        ...countingHandler,
        kvSnapshot: () => listedSnapshot({ ...batch, sequence: ++made }),
        memberCard: () => null,
      })
      tags.length = 0
      socket.write(Buffer.concat([manyOf(ask, 0, 1_000), manyOf(TAG.PING, 8, 1)]))
      await until('the answer to a later question', () => tags.includes(TAG.PONG))
      const answers = tags.filter((seen) => seen === tag).length
      expect(answers).toBeGreaterThan(0)
      expect(answers).toBeLessThan(10)
    },
  )
})
