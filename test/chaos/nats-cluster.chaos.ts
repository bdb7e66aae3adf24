/** Discovery over a cluster of three nats-servers: it survives the loss of any one. */
import { afterEach, describe, expect, it } from 'vitest'
import { connect } from '@nats-io/transport-node'
import { jetstreamManager } from '@nats-io/jetstream'
import { DiscoveryRecord, sampleCard } from '../../src/testing/discovery-kit.ts'
import { parseDiscovery } from '../../src/discovery/kinds/discovery-kinds.ts'
import type { NatsAddress } from '../../src/discovery/nats/nats-address.ts'
import { NatsDiscovery } from '../../src/discovery/nats/nats-discovery.ts'
import { freePort } from '../free-port.ts'
import { until } from '../until.ts'
import { NatsServer, NATS_VERSION } from '../nats/nats-server.ts'

const ends: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

interface Member {
  readonly name: string
  readonly server: NatsServer
}

async function startCluster(size: number): Promise<readonly Member[]> {
  const ports = await Promise.all(Array.from({ length: size }, () => freePort()))
  const routes = ports.map((port) => `nats://127.0.0.1:${port}`).join()
  return await Promise.all(
    ports.map(async (port, index) => {
      const name = `n${index}`
      const server = await NatsServer.start(
        `server_name: ${name}\ncluster { name: c, listen: "127.0.0.1:${port}", routes: [${routes}] }`,
      )
      ends.push(() => server.close())
      return { name, server }
    }),
  )
}

function discoveryAt(members: readonly Member[]): NatsDiscovery {
  const hosts = members.map(({ server }) => `127.0.0.1:${server.port}`)
  const address = parseDiscovery(`nats://${hosts.join()}`) as NatsAddress
  const discovery = new NatsDiscovery({ address, ttlMs: 3_000, pollMs: 50 })
  ends.push(() => discovery.close())
  return discovery
}

/** The leader of the bucket, and its number of replicas. */
async function placeOf({ server }: Member): Promise<readonly [string | undefined, number]> {
  const connection = await connect({ servers: [`127.0.0.1:${server.port}`] })
  try {
    const manager = await jetstreamManager(connection)
    const { cluster, config } = await manager.streams.info('KV_baton_workers')
    return [cluster?.leader, config.num_replicas]
  } finally {
    await connection.close()
  }
}

/** Resolves after so many heartbeats of the worker at this server. */
async function beatsAt({ server }: Member, workerId: number, count: number): Promise<number> {
  const connection = await connect({ servers: [`127.0.0.1:${server.port}`] })
  try {
    let beats = 0
    for await (const _ of connection.subscribe(`baton.beat.${workerId}`, {
      max: count,
      timeout: 60_000,
    }))
      beats += 1
    return beats
  } finally {
    await connection.close()
  }
}

describe.skipIf(NATS_VERSION === null)(`NatsDiscovery (${NATS_VERSION}) - a cluster`, () => {
  it('the leader of the bucket is killed - known workers stay, new ones join', async () => {
    const members = await startCluster(3)
    const worker = discoveryAt(members)
    await worker.register(sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryAt(members).watch(record)
    await record.until('joined 1')
    const [leader, replicas] = await placeOf(members[0] as Member)
    expect(replicas).toBe(3)
    await members.find(({ name }) => name === leader)?.server.kill()
    await discoveryAt(members).register(sampleCard(2))
    await record.until('joined 2')
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
  })

  it('two of three servers are killed, so the bucket has no leader - known workers stay', async () => {
    const members = await startCluster(3)
    const [first, second, third] = members as [Member, Member, Member]
    const worker = discoveryAt([first])
    await worker.register(sampleCard(1))
    const record = new DiscoveryRecord()
    const frontend = discoveryAt([third])
    await frontend.watch(record)
    await record.until('joined 1')
    let told = 0
    frontend.peers().onTold('test', () => void (told += 1))
    // The worker's connection moves to the server that is left, which cannot answer for the bucket.
    await Promise.all([first.server.kill(), second.server.kill()])
    expect(await beatsAt(third, 1, 12)).toBe(12)
    await until('a message between frontends arrives', () => {
      worker.peers().tell('test', null)
      return told > 0
    })
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
  })

  it('a cluster of two, too small for three replicas - is used with fewer replicas', async () => {
    const members = await startCluster(2)
    await discoveryAt(members).register(sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryAt(members).watch(record)
    await record.until('joined 1')
    await until(
      'the bucket lies on one',
      async () => (await placeOf(members[0] as Member))[1] === 1,
    )
  })
})
