import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'

import { tlsOf } from '../../../test/tls-fixtures.ts'
import { until } from '../../../test/until.ts'
import { createDisaggConfig } from '../protocol/disagg-config.ts'
import { boostrHealth } from './boostr-health.ts'
import { listenBoostrHttp } from './boostr-http.ts'
import { BoostrMesh } from './boostr-mesh.ts'
import type { BoostrMeshOptions } from './boostr-mesh.ts'
import { hostBoostrRouter } from './boostr-roles.ts'

const FLEET = tlsOf('fleet')
const OTHER = tlsOf('stranger')

type Settings = Pick<BoostrMeshOptions, 'secret' | 'tls'>

async function meshOf(rank: number, ranks: readonly number[], settings: Settings) {
  const lines: string[] = []
  let connections = 0
  const mesh = await BoostrMesh.listen({
    rank,
    ranks,
    redialMs: 10,
    report: (line) => lines.push(line),
    createNode: () => ({
      receive: () => undefined,
      peerGone: () => undefined,
      peerBack: () => void (connections += 1),
      close: () => undefined,
    }),
    ...settings,
  })
  onTestFinished(() => mesh.close())
  return { mesh, lines, connections: () => connections }
}

/** Passes connections on to a mesh and counts them. */
async function doorTo({ host, port }: BoostrMesh) {
  let attempts = 0
  let cut = (): unknown => undefined
  const server = createServer((near) => {
    attempts += 1
    const far = connect(port, host)
    near.pipe(far).pipe(near)
    near.on('error', () => far.destroy())
    far.on('error', () => near.destroy())
    cut = () => near.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return {
    port: (server.address() as AddressInfo).port,
    attempts: () => attempts,
    cut: () => cut(),
  }
}

const ONCE = (text: string): unknown => [expect.stringContaining(text)]

describe('links of a rank that fail', () => {
  it.each([
    [
      'different secrets',
      { secret: 'a' },
      { secret: 'b' },
      'a connection was refused: the two processes have different shared secrets',
      'cannot be reached: the two processes have different shared secrets',
    ],
    [
      'a certificate that this side refuses',
      { tls: OTHER },
      { tls: FLEET },
      'a connection was refused: TLS handshake failed: the peer closed the connection',
      'cannot be reached: TLS handshake failed: self-signed certificate',
    ],
    [
      'a certificate that the other side refuses',
      { tls: FLEET },
      { tls: { ...OTHER, ca: FLEET.ca } },
      'a connection was refused: TLS handshake failed: certificate refused',
      'cannot be reached: TLS handshake failed: the peer has refused the certificate of this process',
    ],
    [
      'TLS on one side only',
      { tls: FLEET },
      {},
      'a connection was refused: TLS handshake failed',
      'cannot be reached: ',
    ],
  ] as const)(
    '%s - both sides report the cause, not each attempt',
    async (_, there, here, refused, failed) => {
      const accepting = await meshOf(2, [0], there)
      const dialling = await meshOf(0, [2], here)
      const door = await doorTo(accepting.mesh)
      dialling.mesh.dial(2, '127.0.0.1', door.port)
      await until('the reports', () => accepting.lines.length > 0 && dialling.lines.length > 0)
      const before = door.attempts()
      await until('more attempts', () => door.attempts() > before + 5)
      expect(accepting.lines).toEqual(ONCE(refused))
      expect(dialling.lines).toEqual(ONCE(failed))
      expect(dialling.mesh.whyUnreachable(2)).toContain(failed)
    },
  )

  it('nobody listens - it is reported', async () => {
    const gone = await meshOf(2, [0], {})
    const { host, port } = gone.mesh
    await gone.mesh.close()
    const dialling = await meshOf(0, [2], {})
    dialling.mesh.dial(2, host, port)
    await until('the report', () => dialling.lines.length > 0)
    expect(dialling.lines).toEqual(ONCE('cannot be reached: connect ECONNREFUSED'))
  })

  it('a rank that is lost and comes back - both are reported', async () => {
    const first = await meshOf(2, [0], {})
    const door = await doorTo(first.mesh)
    const dialling = await meshOf(0, [2], {})
    dialling.mesh.dial(2, '127.0.0.1', door.port)
    await dialling.mesh.reached(2)
    expect(dialling.lines).toEqual([])
    door.cut()
    await until('it is back', () => dialling.lines.length === 2)
    expect(dialling.lines).toEqual([
      expect.stringContaining('was lost: '),
      'rank 2 is connected again',
    ])
    expect(dialling.mesh.whyUnreachable(2)).toBe(null)
  })

  it('two processes with one rank - all three report it', async () => {
    const accepting = await meshOf(2, [0], {})
    const twins = [await meshOf(0, [2], {}), await meshOf(0, [2], {})]
    for (const { mesh } of twins) mesh.dial(2, accepting.mesh.host, accepting.mesh.port)
    await until('they displace each other', () => accepting.connections() > 10)
    for (const { lines } of [accepting, ...twins]) {
      expect(lines).toContainEqual(
        expect.stringContaining('rank 0 has connected again: do two processes have this rank?'),
      )
      expect(lines.length).toBeLessThan(5)
    }
  })
})

it('GET /health of a router - is 503 with the reason until a worker of each role is connected', async () => {
  const ranks = { prefillWorkers: [1], decodeWorkers: [2, 3], routerRank: 0 }
  const config = createDisaggConfig({ ...ranks, maxKvTransferBytes: 1_000 })
  const limits = { prefillMs: 60_000, tokenMs: 60_000, queueMax: 10, affinityMax: 10 }
  const { node: router, mesh } = await hostBoostrRouter(
    { redialMs: 20, secret: 'a' },
    { config, peers: 'baton', ...limits },
  )
  onTestFinished(() => mesh.close())
  const server = await listenBoostrHttp({
    host: '127.0.0.1',
    port: 0,
    maxTokensMax: 10,
    router,
    health: () => boostrHealth(config, mesh),
    onFault: () => undefined,
  })
  onTestFinished(async () => void (await server.close(0)))
  const health = async (): Promise<unknown> => {
    const reply = await fetch(`http://127.0.0.1:${server.port}/health`)
    return { http: reply.status, ...((await reply.json()) as object) }
  }
  const workers = [
    await meshOf(1, [0], { secret: 'a' }),
    await meshOf(2, [0], { secret: 'b' }),
    await meshOf(3, [0], { secret: 'a' }),
  ].map((worker) => worker.mesh)
  workers.slice(0, 2).forEach(({ host, port }, i) => mesh.dial(i + 1, host, port))
  await mesh.reached(1)
  await until('the reason', () => mesh.whyUnreachable(2) !== null)
  expect(await health()).toEqual({
    http: 503,
    status: 'unavailable',
    load: 0,
    warnings: [
      'no decode worker is connected',
      expect.stringMatching(/^decode worker 2: rank 2 at .*different shared secrets/),
      'decode worker 3: is being connected',
    ],
  })
  mesh.dial(3, workers[2]!.host, workers[2]!.port)
  await mesh.reached(3)
  expect(await health()).toEqual({
    http: 200,
    status: 'ok',
    load: 0,
    warnings: [expect.stringMatching(/^decode worker 2: /)],
  })
})
