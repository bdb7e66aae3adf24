/** Attacks on a port by unauthenticated connections. */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'

import {
  CollectingSink,
  countingHandler,
  planeRequest,
  WORKER,
} from '../../testing/request-plane-kit.ts'
import { tlsOf } from '../../../test/tls-fixtures.ts'
import { FrameDecoder, FrameWriter, TAG, batonLimits, encodeHello } from '../../wire/index.ts'
import { until } from '../../../test/until.ts'
import { TcpRequestPlane } from '../plane/tcp-request-plane.ts'
import { TcpWorkerServer } from '../plane/tcp-worker-server.ts'
import type { TcpWorkerServerOptions } from '../plane/tcp-worker-server.ts'
import type { WireTls } from './wire-tls.ts'

const QUICK = { pingEveryMs: 100, silenceMs: 1_000, handshakeMs: 100 }
/** A connection that is closed is not closed because its time is over. */
const PATIENT = { ...QUICK, silenceMs: 120_000, handshakeMs: 120_000 }
const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

const TLS: WireTls = tlsOf('fleet')

async function listen(options: Partial<TcpWorkerServerOptions> = {}): Promise<TcpWorkerServer> {
  const server = await TcpWorkerServer.listen({ handler: countingHandler, ...options })
  ends.push(() => server.close())
  return server
}

class Stranger {
  readonly socket: Socket
  readonly tags: number[] = []
  isOpen = false
  isClosed = false

  constructor({ port }: { port: number }) {
    const decoder = new FrameDecoder(batonLimits(), { onFrame: (tag) => this.tags.push(tag) })
    this.socket = connect({ host: '127.0.0.1', port })
    this.socket.on('data', (piece: Buffer) => decoder.push(piece))
    this.socket.on('error', () => undefined)
    this.socket.on('connect', () => (this.isOpen = true))
    this.socket.on('close', () => (this.isClosed = true))
    ends.push(() => this.socket.destroy())
  }

  send(bytes: Uint8Array): this {
    this.socket.write(bytes)
    return this
  }
}

/** The legitimate peer: connects and is served. */
async function ask(server: TcpWorkerServer, secret?: string, tls?: WireTls): Promise<string> {
  const plane = new TcpRequestPlane({
    backoffMsMin: 5,
    backoffMsMax: 20,
    ...(secret === undefined ? {} : { secret }),
    ...(tls === undefined ? {} : { tls }),
  })
  ends.push(() => plane.close())
  plane.workerJoined({ workerId: WORKER, host: '127.0.0.1', port: server.port })
  const sink = new CollectingSink()
  plane.send(WORKER, planeRequest('r', [3]), sink)
  return await sink.ended
}

const headOf = (length: number, tag: number): Uint8Array => {
  const head = new Uint8Array(8)
  new DataView(head.buffer).setUint32(0, length, true)
  new DataView(head.buffer).setUint32(4, tag, true)
  return head
}

function hello(padding = ''): Uint8Array {
  const writer = new FrameWriter()
  encodeHello(writer, {
    version: 1,
    versionOldest: 1,
    nonce: new Uint8Array(16),
    role: 'frontend',
    software: padding,
    capabilities: [],
    limits: {},
    authRequired: false,
  })
  return writer.take() ?? new Uint8Array(0)
}

describe('unauthenticated connections', () => {
  it.each([
    ['REQUEST', TAG.REQUEST],
    ['KV_OFFER', TAG.KV_OFFER],
    ['TOKENS', TAG.TOKENS],
  ])(
    'a %s that is announced before authentication - the connection is closed at the head',
    async (_, tag) => {
      const stranger = new Stranger(await listen({ timing: PATIENT })).send(
        headOf(60 * 1024 * 1024, tag),
      )
      await until('the connection is closed', () => stranger.isClosed)
    },
  )

  it.each([
    [59, 0, false],
    [61, 0, true],
    // Skipped bytes count too.
    [1, 60, false],
    [1, 70, true],
  ])(
    'HELLO of %i KiB, then %i KiB to skip - connection closed: %s',
    async (helloKib, skipKib, isRefused) => {
      const stranger = new Stranger(await listen({ secret: 's', timing: PATIENT }))
      stranger.send(hello('x'.repeat(helloKib * 1024)))
      stranger.send(headOf(0x7fffffff, 0x80000000 + 999)).send(new Uint8Array(skipKib * 1024))
      if (isRefused) await until('the connection is closed', () => stranger.isClosed)
      else await until('HELLO was sent', () => stranger.tags.includes(TAG.HELLO))
      expect(stranger.tags).not.toContain(TAG.AUTH)
    },
  )

  it('64 KiB before authentication - are accepted; a byte more closes the connection', async () => {
    const server = await listen({ secret: 's', timing: PATIENT })
    const stranger = new Stranger(server)
    const first = hello()
    // One frame to skip, shorter than the longest one that may be skipped.
    stranger.send(first).send(headOf(512 * 1024, 0x80000000 + 999))
    stranger.send(new Uint8Array(64 * 1024 - first.length - 8))
    await until('HELLO was sent', () => stranger.tags.includes(TAG.HELLO))
    expect(await ask(server, 's')).toBe('length')
    expect(stranger.isClosed).toBe(false)
    stranger.send(new Uint8Array(1))
    await until('the connection is closed', () => stranger.isClosed)
  })

  it('a HELLO without the secret - gets no proof that could be used to guess secrets', async () => {
    const server = await listen({ secret: 's3cret', timing: QUICK })
    const stranger = new Stranger(server).send(hello())
    await until('its time is over', () => stranger.isClosed)
    expect(stranger.tags.filter((tag) => tag !== TAG.GOODBYE)).toEqual([TAG.HELLO])
  })

  it.each([
    ['plain', undefined],
    ['TLS', TLS],
  ])('1,000 idle connections (%s) - the legitimate peer gets in', async (_, tls) => {
    const server = await listen({ secret: 's3cret', ...(tls === undefined ? {} : { tls }) })
    const strangers: Stranger[] = []
    // Not more at once than fit into the accept queue: the system retries dropped ones only after seconds.
    for (let lot = 0; lot < 4; lot++) {
      const come = Array.from({ length: 250 }, () => new Stranger(server))
      await until('they are there', () => come.every(({ isOpen, isClosed }) => isOpen || isClosed))
      strangers.push(...come)
    }
    await until('the oldest have lost their places', () => {
      return strangers.filter(({ isClosed }) => isClosed).length >= 900
    })
    expect(await ask(server, 's3cret', tls)).toBe('length')
  })

  it.each([3, 4])(
    '4 peers of an address are allowed, %i are connected - one more is told why it is refused',
    async (count) => {
      const server = await listen({ gate: { peersPerAddressMax: 4 } })
      for (let i = 0; i < count; i++) expect(await ask(server)).toBe('length')
      expect(await ask(server)).toBe(count < 4 ? 'length' : 'transport.cannot_connect')
    },
  )

  it('a peer that disconnects - frees its place', async () => {
    const server = await listen({ gate: { peersMax: 1 } })
    for (let i = 0; i < 3; i++) {
      expect(await ask(server)).toBe('length')
      await ends.pop()?.()
      await until('it is gone', () => server.connectionCount === 0)
    }
  })
})
