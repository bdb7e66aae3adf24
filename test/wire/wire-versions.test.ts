/**
 * Compatibility of versions: this version reads what earlier minor versions wrote and writes what they can read.
 * `test/vectors/wire-*.json` were recorded with the code of those versions (`scripts/record-wire.ts`).
 */
import { readdirSync, readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { TcpRequestPlane } from '../../src/network/plane/tcp-request-plane.ts'
import { TcpWorkerServer } from '../../src/network/plane/tcp-worker-server.ts'
import { CollectingSink, planeRequest } from '../../src/testing/request-plane-kit.ts'
import { workerIdOf } from '../../src/base/index.ts'
import * as wire from '../../src/wire/index.ts'
import { until } from '../until.ts'
import { WIRE_CASES } from './wire-cases.ts'

const VECTORS = new URL('../vectors/', import.meta.url)

interface Recording {
  readonly version: string
  readonly frames: readonly { readonly name: string; readonly frame: string }[]
}

const recordings = readdirSync(VECTORS)
  .filter((name) => /^wire-.*\.json$/.test(name))
  .map((name) => JSON.parse(readFileSync(new URL(name, VECTORS), 'utf8')) as Recording)

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

describe.each(recordings)('frames of $version', ({ frames }) => {
  it.each(frames)(
    '$name - is read, and written so that $version can read it',
    ({ name, frame }) => {
      const known = WIRE_CASES.find((one) => one.name === name)
      if (known === undefined) throw new Error(`no case for the recorded ${name}`)
      const recorded = Buffer.from(frame, 'hex')
      let value: unknown
      const decoder = new wire.FrameDecoder(wire.batonLimits(), {
        onFrame: (tag, bytes, start, end) => (value = known.decode(wire, tag, bytes, start, end)),
      })
      decoder.push(recorded)
      expect(value).toEqual(known.value)
      const writer = new wire.FrameWriter()
      known.encode(wire, writer)
      const written = Buffer.from(writer.take() ?? [])
      if (known.mayGrow === true) expect(written.subarray(8)).toHaveLength(recorded.length - 8)
      expect(written.toString('hex')).toBe(frame)
    },
  )
})

describe.each(recordings)('a peer of $version', ({ frames }) => {
  const frameOf = (name: string): Buffer =>
    Buffer.from(frames.find((one) => one.name === name)?.frame ?? '', 'hex')
  /** Its own AUTH without a secret, and HELLO without required authentication. */
  const auth = Buffer.from([0, 0, 0, 0, 41, 0, 0, 0])
  const hello = (role: string): Buffer => {
    const writer = new wire.FrameWriter()
    const { value } = WIRE_CASES.find(({ name }) => name === 'HELLO') ?? {}
    wire.encodeHello(writer, {
      ...(value as wire.Hello),
      role: role as 'worker',
      authRequired: false,
    })
    return Buffer.from(writer.take() ?? [])
  }

  it('as worker - gets requests and replies; it authenticates before the frontend has', async () => {
    const received: number[] = []
    const server = createServer((socket) => {
      const decoder = new wire.FrameDecoder(wire.batonLimits(), {
        onFrame: (tag, bytes, start) => {
          received.push(tag)
          if (tag === wire.TAG.HELLO) socket.write(auth)
          if (tag !== wire.TAG.REQUEST) return
          const finish = frameOf('FINISH')
          const tokens = frameOf('TOKENS').subarray(0, 16)
          tokens.writeUInt32LE(8, 0)
          for (const [frame, at] of [
            [tokens, 8],
            [finish, 8],
          ] as const) {
            frame.writeUInt32LE(wire.readU32(bytes, start), at)
            socket.write(frame)
          }
        },
      })
      socket.on('data', (piece: Buffer) => decoder.push(piece)).on('error', () => undefined)
      socket.write(hello('worker'))
      ends.push(() => socket.destroy())
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    ends.push(() => server.close())
    const plane = new TcpRequestPlane()
    ends.push(() => plane.close())
    const workerId = workerIdOf(7)
    plane.workerJoined({
      workerId,
      host: '127.0.0.1',
      port: (server.address() as AddressInfo).port,
    })
    const sink = new CollectingSink()
    plane.send(workerId, planeRequest('r', [3]), sink)
    expect(await sink.ended).toBe('length')
    expect(sink.tokens).toEqual([77, 6])
    expect(received.slice(0, 3)).toEqual([wire.TAG.HELLO, wire.TAG.AUTH, wire.TAG.REQUEST])
  })

  it('as frontend - is served', async () => {
    const seen: string[] = []
    const server = await TcpWorkerServer.listen({
      handler: {
        serve: (request, reply) => {
          seen.push(`${request.requestId} ${request.tokenIds.length}`)
          reply.token(77)
          reply.chunk({ tokenIds: [], finish: 'length' })
          return { cancel: () => undefined }
        },
      },
    })
    ends.push(() => server.close())
    const received: number[] = []
    const socket = connect({ host: '127.0.0.1', port: server.port })
    ends.push(() => socket.destroy())
    const decoder = new wire.FrameDecoder(wire.batonLimits(), {
      onFrame: (tag) => {
        received.push(tag)
        // As in 0.1.0: each side sends its proof after the other's HELLO, and requests after the other's proof.
        if (tag === wire.TAG.HELLO) socket.write(auth)
        if (tag === wire.TAG.AUTH)
          socket.write(Buffer.concat([frameOf('CREDIT'), frameOf('REQUEST')]))
      },
    })
    socket.on('data', (piece: Buffer) => decoder.push(piece))
    socket.write(hello('frontend'))
    await until('the reply has ended', () => received.includes(wire.TAG.FINISH))
    expect(seen).toEqual(['r-1 3'])
    expect(received.filter((tag) => tag !== wire.TAG.LOAD && tag !== wire.TAG.KV_EVENTS)).toEqual([
      wire.TAG.HELLO,
      wire.TAG.AUTH,
      wire.TAG.TOKENS,
      wire.TAG.FINISH,
    ])
  })
})
