import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'

import { randomInt, seededRandom } from '../../base/index.ts'
import type { BatonError } from '../../base/index.ts'
import { createDisaggConfig } from '../protocol/disagg-config.ts'
import type { BoostrRouter } from '../protocol/boostr-router.ts'
import { until } from '../../../test/until.ts'
import { decodeStep, kvOf, singleNode } from '../../../test/wire/boostr-toy.ts'
import { BoostrMesh } from './boostr-mesh.ts'
import { hostBoostrDecode, hostBoostrPrefill, hostBoostrRouter } from './boostr-roles.ts'
import type { HostedBoostr } from './boostr-roles.ts'

const PREFILL = [100, 101]
const DECODE = [200, 201]
const ROUTERS = [0, 1]
const ALL = [...PREFILL, ...DECODE, ...ROUTERS]
const KV_MAX = 100_000
const SEED = Date.now() % 1e9

const meshes: BoostrMesh[] = []

afterEach(async () => {
  await Promise.all(meshes.splice(0).map((mesh) => mesh.close()))
})

type OnPrefill = (rank: number) => number | null

async function startFleet(onPrefill: OnPrefill, onStep: () => void = () => undefined) {
  const start = async <N>(hosting: Promise<HostedBoostr<N>>): Promise<HostedBoostr<N>> => {
    const hosted = await hosting
    meshes.push(hosted.mesh)
    return hosted
  }
  const secret = 's3cret'
  const base = { secret, ranks: ALL, redialMs: 20 }
  const peers = 'baton'
  const decode = await Promise.all(
    DECODE.map((rank) => {
      const step = (...args: Parameters<typeof decodeStep>) => {
        onStep()
        return decodeStep(...args)
      }
      const options = {
        decodeStep: step,
        maxKvTransferBytes: KV_MAX,
        peers,
        kvWaitMs: 60_000,
      } as const
      return start(hostBoostrDecode({ ...base, rank }, options))
    }),
  )
  const prefill = await Promise.all(
    PREFILL.map((rank) => {
      const options = { decodeWorkers: DECODE, maxKvTransferBytes: KV_MAX, ackMs: 60_000 }
      return start(
        hostBoostrPrefill(
          { ...base, rank },
          {
            ...options,
            peers,
            parkedMax: 100,
            prefill: (tokenIds, done) => {
              const delayMs = onPrefill(rank)
              if (delayMs !== null) setTimeout(() => done(kvOf(tokenIds)), delayMs)
            },
          },
        ),
      )
    }),
  )
  const routers = await Promise.all(
    ROUTERS.map((routerRank) => {
      const options = { prefillWorkers: PREFILL, decodeWorkers: DECODE, routerRank }
      const config = createDisaggConfig({ ...options, maxKvTransferBytes: KV_MAX })
      const limits = { prefillMs: 60_000, tokenMs: 60_000, queueMax: 1_000, affinityMax: 10 }
      return start(hostBoostrRouter({ secret, redialMs: 20 }, { config, peers, ...limits }))
    }),
  )
  const dial = async (from: BoostrMesh, tos: readonly HostedBoostr<unknown>[], ranks: number[]) => {
    tos.forEach(({ mesh }, i) => from.dial(ranks[i] ?? -1, mesh.host, mesh.port))
    await Promise.all(ranks.map((rank) => from.reached(rank)))
  }
  await Promise.all(prefill.map(({ mesh }) => dial(mesh, decode, DECODE)))
  await Promise.all(
    routers.map(({ mesh }) => dial(mesh, [...prefill, ...decode], [...PREFILL, ...DECODE])),
  )
  return { decode, prefill, routers }
}

interface Outcome {
  readonly tokens: bigint[]
  readonly error: BatonError | null
}

function ask(router: BoostrRouter, prompt: readonly bigint[], maxNewTokens = 12): Promise<Outcome> {
  const tokens: bigint[] = []
  return new Promise((resolve) => {
    router.routeRequest(
      { tokenIds: BigInt64Array.from(prompt), maxNewTokens },
      {
        onToken: (token) => tokens.push(token),
        onDone: () => resolve({ tokens, error: null }),
        onError: (error) => resolve({ tokens, error }),
      },
    )
  })
}

/** A proxy to that mesh which counts the connections. */
async function countedDoor(to: BoostrMesh) {
  let connections = 0
  const server = createServer((near) => {
    connections += 1
    const far = connect(to.port, to.host)
    near.on('error', () => far.destroy()).on('close', () => far.destroy())
    far.on('error', () => near.destroy()).on('close', () => near.destroy())
    near.pipe(far).pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { host: '127.0.0.1', port, connections: () => connections }
}

const promptOf = (length: number, first: number): bigint[] =>
  Array.from({ length }, (_, i) => BigInt(first + i))

describe('boostr over sockets', () => {
  it(`2 routers × 2 prefill × 2 decode - answer as a single node, seed ${SEED}`, async () => {
    const random = seededRandom(SEED)
    const fleet = await startFleet(() => randomInt(random, 15))
    const asked = Array.from({ length: 40 }, async (_, i) => {
      // Some are larger than what is copied to the socket.
      const prompt = promptOf(
        1 + randomInt(random, i % 5 === 0 ? 5_000 : 50),
        randomInt(random, 1e6),
      )
      const count = randomInt(random, 20)
      const { tokens, error } = await ask(fleet.routers[i % 2]!.node, prompt, count)
      expect(error).toBeNull()
      expect(tokens).toEqual(singleNode(prompt, count))
    })
    await Promise.all(asked)
    const nodes = [...fleet.routers, ...fleet.prefill, ...fleet.decode]
    expect(nodes.map(({ node }) => node.load)).toEqual(nodes.map(() => 0))
  })

  it('KV above the limit - is refused, and the next request is right', async () => {
    const fleet = await startFleet(() => 0)
    const [router] = fleet.routers
    const refused = await ask(router!.node, promptOf(20_000, 1))
    expect(refused.error?.code).toBe('kv.transfer_failed')
    const prompt = promptOf(20, 7)
    expect((await ask(router!.node, prompt)).tokens).toEqual(singleNode(prompt, 12))
  })

  it('a prefill worker that dies while it computes - is a typed error, the other continues', async () => {
    let dying: number | null = null
    const fleet = await startFleet((rank) => {
      if (dying !== null) return 0
      dying = rank
      return null
    })
    const { node } = fleet.routers[0]!
    const lost = ask(node, promptOf(30, 3))
    await until('prefill', () => dying !== null)
    await fleet.prefill[PREFILL.indexOf(dying!)]!.mesh.close()
    const { error } = await lost
    expect([error?.code, error?.data]).toMatchObject([
      'backend.worker_unavailable',
      { stage: 'prefill', rank: dying },
    ])
    const prompt = promptOf(9, 2)
    expect((await ask(node, prompt)).tokens).toEqual(singleNode(prompt, 12))
    expect(node.load).toBe(0)
  })

  it('a decode worker that dies before the KV or between tokens - is a typed error', async () => {
    for (const state of ['prefill', 'decode'] as const) {
      let reached = false
      const fleet = await startFleet(
        () => {
          reached ||= state === 'prefill'
          return state === 'prefill' ? 50 : 0
        },
        () => {
          if (state !== 'decode' || reached) return
          reached = true
        },
      )
      const { node } = fleet.routers[0]!
      // Long enough not to end before its worker dies.
      const lost = Promise.all([1, 2].map((first) => ask(node, promptOf(5, first), 1_000_000)))
      await until(state, () => reached)
      await Promise.all(fleet.decode.map(({ mesh }) => mesh.close()))
      for (const { error } of await lost) {
        // The model may have ended already.
        if (error !== null) expect(error.code).toBe('backend.worker_unavailable')
        else expect(state).toBe('decode')
      }
      expect((await ask(node, promptOf(5, 1))).error?.code).toBe('backend.worker_unavailable')
      await until('prefill idle', () => fleet.prefill.every((worker) => worker.node.load === 0))
      expect(node.load).toBe(0)
    }
  })

  it('a rank that is not of the fleet, or has no secret - is refused', async () => {
    const fleet = await startFleet(() => 0)
    const [to] = fleet.decode
    const node = { receive: () => undefined, peerGone: () => undefined, close: () => undefined }
    for (const wrong of [{ rank: 9, secret: 's3cret' }, { rank: 100 }]) {
      const options = { ...wrong, ranks: DECODE, redialMs: 20 }
      const mesh = await BoostrMesh.listen({ ...options, createNode: () => node })
      meshes.push(mesh)
      const before = to!.mesh.reachable
      const door = await countedDoor(to!.mesh)
      mesh.dial(200, door.host, door.port)
      // It reconnects after a refusal.
      await until('refused twice', () => door.connections() > 2)
      expect(to!.mesh.reachable).toEqual(before)
      if (!('secret' in wrong)) expect(mesh.reachable).toEqual([])
    }
  })
})
