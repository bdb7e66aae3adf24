/** Authenticated peers that send and do not read: what they are sent stays bounded. */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'

import { countingHandler } from '../../testing/request-plane-kit.ts'
import { FrameDecoder, FrameWriter, TAG, batonLimits, encodeHello } from '../../wire/index.ts'
import type { WorkerHandler } from '../../wire/index.ts'
import { until } from '../../../test/until.ts'
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
  const writer = new FrameWriter()
  encodeHello(writer, {
    version: 1,
    versionOldest: 1,
    nonce: new Uint8Array(16),
    role: 'frontend',
    software: 'test',
    capabilities: ['kv-events'],
    limits: {},
    authRequired: false,
  })
  writer.begin(TAG.AUTH).end()
  socket.write(writer.take()!)
  await until('the handshake', () => tags.includes(TAG.AUTH))
  return { socket, tags }
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
    // The kernel buffers some megabytes of each direction.
    expect(sent).toBeLessThan(256 * MIB)
  })

  it.each([
    ['cards', TAG.CARD_ASK, TAG.CARD],
    ['snapshots', TAG.KV_SNAPSHOT, TAG.KV_EVENTS],
  ])(
    'a thousand questions for %s in one piece - are answered once or twice',
    async (_, ask, tag) => {
      let made = 0
      const batch = { dpRank: 0, sequence: 1, events: [] }
      const { socket, tags } = await frontend({
        ...countingHandler,
        kvSnapshot: () => [{ ...batch, sequence: ++made }],
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
