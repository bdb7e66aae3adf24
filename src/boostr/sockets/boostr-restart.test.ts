import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'

import { until } from '../../../test/until.ts'
import { Reply } from '../../../test/wire/boostr-fleet.ts'
import { decodeStep, kvOf, singleNode } from '../../../test/wire/boostr-toy.ts'
import type { BoostrPeers } from '../protocol/boostr-link.ts'
import { decodeBoostr } from '../protocol/boostr-message.ts'
import type { BoostrRouter } from '../protocol/boostr-router.ts'
import { createDisaggConfig } from '../protocol/disagg-config.ts'
import { BoostrMesh } from './boostr-mesh.ts'
import { hostBoostrDecode, hostBoostrPrefill, hostBoostrRouter } from './boostr-roles.ts'
import type { HostedBoostr } from './boostr-roles.ts'

const ROUTER = 0
const PREFILL = 1
const DECODE = 2
const KV_MAX = 100_000

const OLD = [83n, 1n, 2n]
const NEW = [77n, 3n, 4n]

async function hosted<N>(hosting: Promise<HostedBoostr<N>>): Promise<HostedBoostr<N>> {
  const one = await hosting
  onTestFinished(() => one.mesh.close())
  return one
}

/** One worker of each kind; prompts are computed when the test says so. */
async function startWorkers(peers: BoostrPeers) {
  const computing = new Map<bigint, () => void>()
  const common = { ranks: [ROUTER, PREFILL, DECODE], redialMs: 20 }
  const decode = await hosted(
    hostBoostrDecode(
      { ...common, rank: DECODE },
      { decodeStep, peers, maxKvTransferBytes: KV_MAX, kvWaitMs: 60_000 },
    ),
  )
  const prefill = await hosted(
    hostBoostrPrefill(
      { ...common, rank: PREFILL },
      {
        peers,
        decodeWorkers: [DECODE],
        maxKvTransferBytes: KV_MAX,
        ackMs: 60_000,
        parkedMax: 100,
        prefill: (tokenIds, done) => {
          computing.set(tokenIds[0] ?? 0n, () => done(kvOf(tokenIds)))
        },
      },
    ),
  )
  prefill.mesh.dial(DECODE, decode.mesh.host, decode.mesh.port)
  await prefill.mesh.reached(DECODE)
  return { prefill, decode, computing }
}

type Place = Pick<BoostrMesh, 'host' | 'port'>

async function startRouter(peers: BoostrPeers, prefill: Place, decode: Place, redialMs = 20) {
  const config = createDisaggConfig({
    prefillWorkers: [PREFILL],
    decodeWorkers: [DECODE],
    routerRank: ROUTER,
    maxKvTransferBytes: KV_MAX,
  })
  const limits = { prefillMs: 60_000, tokenMs: 60_000, queueMax: 10, affinityMax: 10 }
  const router = await hosted(hostBoostrRouter({ redialMs }, { config, peers, ...limits }))
  router.mesh.dial(PREFILL, prefill.host, prefill.port)
  router.mesh.dial(DECODE, decode.host, decode.port)
  await Promise.all([router.mesh.reached(PREFILL), router.mesh.reached(DECODE)])
  return router
}

function ask(router: BoostrRouter, prompt: readonly bigint[]): Reply {
  const reply = new Reply()
  router.routeRequest({ tokenIds: BigInt64Array.from(prompt), maxNewTokens: 5 }, reply)
  return reply
}

/** A way to a mesh whose connections the test can break. */
async function breakableWay(to: Place) {
  const near = new Set<Socket>()
  const server = createServer((socket) => {
    near.add(socket)
    const far = connect(to.port, to.host)
    socket.on('error', () => far.destroy()).on('close', () => far.destroy())
    far.on('error', () => socket.destroy()).on('close', () => socket.destroy())
    socket.pipe(far).pipe(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of near) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const breakNow = (): void => {
    for (const socket of near) socket.destroy()
    near.clear()
  }
  return { host: '127.0.0.1', port, breakNow }
}

/** The id of the first request that a router sends, seen by its prefill worker. */
async function firstRequestId(peers: BoostrPeers): Promise<bigint> {
  const ids: bigint[] = []
  const prefill = await BoostrMesh.listen({
    rank: PREFILL,
    ranks: [ROUTER],
    createNode: () => ({
      receive: (_, { tag, payload }) => {
        const message = decodeBoostr(tag, payload)
        if ('requestId' in message) ids.push(message.requestId)
      },
      peerGone: () => undefined,
      close: () => undefined,
    }),
  })
  onTestFinished(() => prefill.close())
  const { decode } = await startWorkers(peers)
  const router = await startRouter(peers, prefill, decode.mesh)
  ask(router.node, NEW)
  await until('a request', () => ids.length > 0)
  return ids[0]!
}

describe('a router numbers its requests', () => {
  it('original peers - from 1, as the original', async () => {
    expect(await firstRequestId('boostr')).toBe(1n)
  })

  it('Baton peers - each process from a number of its own', async () => {
    expect(await firstRequestId('baton')).not.toBe(await firstRequestId('baton'))
  })
})

describe.each(['baton', 'boostr'] as const)('%s peers', (peers) => {
  /** The former request ends its prefill while the new one computes. */
  async function expectOwnAnswer(
    { computing, prefill }: Awaited<ReturnType<typeof startWorkers>>,
    router: BoostrRouter,
  ) {
    const reply = ask(router, NEW)
    await until('the new prefill', () => computing.has(77n))
    computing.get(83n)?.()
    await until('the old prefill is over', () => prefill.node.load === 1)
    computing.get(77n)?.()
    await until('an end', () => reply.ends.length > 0)
    expect([reply.ends, reply.tokens]).toEqual([['done'], singleNode(NEW, 5)])
    expect(prefill.node.load).toBe(0)
  }

  it('a router that starts again - gets no answer to its former requests', async () => {
    const workers = await startWorkers(peers)
    const { prefill, decode, computing } = workers
    const former = await startRouter(peers, prefill.mesh, decode.mesh)
    ask(former.node, OLD)
    await until('the old prefill', () => computing.has(83n))
    await former.mesh.close()
    const router = await startRouter(peers, prefill.mesh, decode.mesh)
    await expectOwnAnswer(workers, router.node)
  })

  it('a router that starts before its former process has ended - gets no answer to its requests', async () => {
    const workers = await startWorkers(peers)
    const { prefill, decode, computing } = workers
    // It does not connect again, so it does not take the rank back.
    const former = await startRouter(peers, prefill.mesh, decode.mesh, 60_000)
    const lost = ask(former.node, OLD)
    await until('the old prefill', () => computing.has(83n))
    const router = await startRouter(peers, prefill.mesh, decode.mesh)
    await until('the loss', () => lost.ends.length > 0)
    expect(lost.ends).toEqual(['backend.worker_unavailable'])
    await expectOwnAnswer(workers, router.node)
  })

  it('a router that connects again - gets no answer over the connection that was lost', async () => {
    const workers = await startWorkers(peers)
    const { prefill, decode, computing } = workers
    const way = await breakableWay(prefill.mesh)
    const router = await startRouter(peers, way, decode.mesh)
    const lost = ask(router.node, OLD)
    await until('the old prefill', () => computing.has(83n))
    way.breakNow()
    await until('the loss', () => lost.ends.length > 0)
    expect(lost.ends).toEqual(['backend.worker_unavailable'])
    await router.mesh.reached(PREFILL)
    await expectOwnAnswer(workers, router.node)
  })
})
