import { afterEach, describe, expect, it } from 'vitest'

import { workerIdOf } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import { pem, tlsOf } from '../../../test/tls-fixtures.ts'
import { until } from '../../../test/until.ts'
import { KvTcpClient } from '../kv/kv-tcp-client.ts'
import { KvTcpServer } from '../kv/kv-tcp-server.ts'
import { KV_TRANSPORT_CASES, KitBlocks, KitTarget } from '../../testing/kv-transport-kit.ts'
import type { KvTransportFactory } from '../../testing/kv-transport-kit.ts'
import { WorkerConversation } from '../plane/ask-worker.ts'
import { TcpRequestPlane } from '../plane/tcp-request-plane.ts'
import { TcpWorkerServer } from '../plane/tcp-worker-server.ts'
import { wireFailure } from './wire-tls.ts'
import type { WireTls } from './wire-tls.ts'

const FLEET = tlsOf('fleet')
const STRANGER = tlsOf('stranger')
/** Trusts the fleet's authority but has a certificate that the fleet does not trust. */
const IMPOSTOR = { ...STRANGER, ca: FLEET.ca }
/** Shows the fleet's certificate but trusts another authority. */
const DOUBTER = { ...FLEET, ca: STRANGER.ca }
const EXPIRED = { ...FLEET, cert: pem('expired.pem') }

const ends: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

const tls: KvTransportFactory = async (settings) => {
  const server = await KvTcpServer.listen({ ...settings, tls: FLEET })
  const createClient = (): KvTcpClient => new KvTcpClient({ tls: FLEET })
  return { server, client: createClient(), createClient }
}

describe('KV transport over TLS', () => {
  for (const transportCase of KV_TRANSPORT_CASES) {
    it(`transport - ${transportCase.name}`, () => transportCase.run(tls))
  }

  it('a puller whose certificate is refused - is told that, and not that TLS is missing', async () => {
    const server = await KvTcpServer.listen({ tls: FLEET, leaseMs: 60_000 })
    const client = new KvTcpClient({ tls: IMPOSTOR })
    ends.push(
      () => server.close(),
      () => client.close(),
    )
    const blocks = new KitBlocks([1])
    const offer = server.offer(blocks.pin(), blocks)
    const { message } = await client.pull(offer, [0], new KitTarget()).then(
      () => new Error('it was pulled'),
      (error: Error) => error,
    )
    expect(message).toMatch(/the peer has refused the certificate of this process/)
  })

  it('a puller without a trusted certificate - gets nothing', async () => {
    const server = await KvTcpServer.listen({ tls: FLEET, leaseMs: 60_000 })
    ends.push(() => server.close())
    const blocks = new KitBlocks([50_000])
    const offer = server.offer(blocks.pin(), blocks)
    for (const wrong of [{}, { tls: STRANGER }, { tls: IMPOSTOR }]) {
      const client = new KvTcpClient({ ...wrong, connectTimeoutMs: 500, stallMs: 2_000 })
      ends.push(() => client.close())
      const target = new KitTarget()
      await expect(client.pull(offer, [0], target)).rejects.toMatchObject({
        code: 'kv.transfer_failed',
      })
      expect(target.taken.size).toBe(0)
    }
    expect(server.offerCount).toBe(1)
  })
})

describe('request plane over TLS', () => {
  async function addressOf(tls: WireTls): Promise<{ host: string; port: number }> {
    const serve = (): { cancel: () => void } => ({ cancel: () => undefined })
    const worker = await TcpWorkerServer.listen({ handler: { serve }, tls })
    ends.push(() => worker.close())
    return worker
  }

  async function connect(server: WireTls | undefined, client: WireTls | undefined) {
    let served = 0
    const worker = await TcpWorkerServer.listen({
      handler: {
        serve: (_request, reply) => {
          served += 1
          reply.token(7)
          reply.chunk(finishChunk('stop'))
          return { cancel: () => undefined }
        },
      },
      ...(server ? { tls: server } : {}),
    })
    const plane = new TcpRequestPlane(client ? { tls: client } : {})
    ends.push(
      () => worker.close(),
      () => plane.close(),
    )
    const workerId = workerIdOf(1)
    plane.workerJoined({ workerId, host: worker.host, port: worker.port })
    const ask = async (): Promise<number[]> => {
      const tokens: number[] = []
      await new Promise<void>((resolve, reject) => {
        const request = {
          requestId: 'r',
          model: 'm',
          tokenIds: new Uint32Array(3),
          sampling: {},
          stop: {},
          output: {},
          eosTokenIds: [],
          routing: {},
        }
        const onToken = (token: number): number => tokens.push(token)
        plane.send(workerId, request, { onToken, onChunk: () => resolve(), onError: reject })
      })
      return tokens
    }
    return { plane, workerId, ask, servedCount: () => served }
  }

  it('with certificates of one authority - a request is answered', async () => {
    const { plane, workerId, ask, servedCount } = await connect(FLEET, FLEET)
    await until('connection', () => plane.isConnected(workerId))
    expect(await ask()).toEqual([7])
    expect(servedCount()).toBe(1)
  })

  it.each([
    ['trusts another authority', DOUBTER, FLEET, /the authority in the --tls-ca of the peer/],
    ['gets a foreign certificate', FLEET, IMPOSTOR, /the authority in the --tls-ca of the peer/],
    ['gets an expired one', FLEET, EXPIRED, /it expired on .*2021/],
  ])(
    'the worker refuses the certificate of the frontend: it %s - the frontend says so',
    async (_, server, client, text) => {
      const { ask } = await connect(server, client)
      await expect(ask()).rejects.toMatchObject({
        code: 'transport.tls_failed',
        message: expect.stringMatching(/the peer has refused the certificate of this process/),
      })
      // The cause is the same on every attempt, however the connection ends.
      for (let attempt = 0; attempt < 5; attempt++) {
        await expect(
          WorkerConversation.open({
            ...(await addressOf(server)),
            tls: client,
            software: '',
            timeoutMs: 50_000,
          }),
        ).rejects.toMatchObject({
          code: 'transport.tls_failed',
          message: expect.stringMatching(text),
        })
      }
    },
  )

  it('the certificate of the worker has expired - its report says so', async () => {
    const told: string[] = []
    const serve = (): { cancel: () => void } => ({ cancel: () => undefined })
    const worker = await TcpWorkerServer.listen({
      handler: { serve },
      tls: EXPIRED,
      onPeerGone: ({ message }) => told.push(message),
    })
    ends.push(() => worker.close())
    const { host, port } = worker
    const asked = WorkerConversation.open({
      host,
      port,
      tls: FLEET,
      software: '',
      timeoutMs: 50_000,
    })
    await expect(asked).rejects.toMatchObject({ code: 'transport.tls_failed' })
    await until('the report', () => told.length > 0)
    expect(told[0]).toMatch(/the certificate of this process: it expired on .*2021/)
  })

  it('with another authority, a foreign certificate, or TLS on one side only - no frame is accepted', async () => {
    const pairs = [
      [FLEET, STRANGER],
      [FLEET, IMPOSTOR],
      [FLEET, undefined],
      [undefined, FLEET],
    ] as const
    for (const [server, client] of pairs) {
      const { plane, workerId, ask, servedCount } = await connect(server, client)
      // The request waits for the connection, and ends when the connection has failed.
      await expect(ask()).rejects.toMatchObject({ code: expect.stringMatching(/^transport\./) })
      expect(plane.isConnected(workerId)).toBe(false)
      expect(servedCount()).toBe(0)
    }
  })
})

describe('the message of a failed handshake', () => {
  it.each([
    ['CERT_HAS_EXPIRED', /; renew the certificate of the peer/],
    ['CERT_NOT_YET_VALID', /; correct the clock/],
    ['SELF_SIGNED_CERT_IN_CHAIN', /; are both certificates signed by the authority in --tls-ca\?/],
  ])('%s - says what to do', (code, text) => {
    const fault = wireFailure(Object.assign(new Error('refused'), { code }))
    expect([fault.code, fault.message]).toEqual([
      'transport.tls_failed',
      expect.stringMatching(text),
    ])
  })
})
