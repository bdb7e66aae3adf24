/**
 * The fault cases of the discovery conformance kit with a real nats-server; run with the chaos tests because they
 * take long.
 */
import { connect } from '@nats-io/transport-node'
import type { NatsConnection } from '@nats-io/transport-node'
import { describe, it } from 'vitest'
import { parseDiscovery } from '../../src/discovery/kinds/discovery-kinds.ts'
import type { NatsAddress } from '../../src/discovery/nats/nats-address.ts'
import { NatsDiscovery } from '../../src/discovery/nats/nats-discovery.ts'
import { DISCOVERY_FAULT_CHECKS } from '../../src/testing/discovery-faults.ts'
import type { FaultScene } from '../../src/testing/discovery-faults.ts'
import { FaultyProxy } from '../faulty-proxy.ts'
import { NatsServer, NATS_VERSION } from '../nats/nats-server.ts'

const TTL_MS = 900

interface Place {
  readonly server: NatsServer
  /** Proxies: one before the worker, one before the frontend. */
  readonly workers: FaultyProxy
  readonly frontends: FaultyProxy
}

type Fault = Pick<FaultScene, 'begin' | 'end' | 'isTold' | 'refuses'>

const FAULTS: Readonly<Record<string, (place: Place) => Fault>> = {
  'killed and restarted, its memory empty': ({ server }) => ({
    begin: () => server.kill(),
    end: () => server.restart(),
    isTold: true,
  }),
  'standing still': ({ server }) => ({
    begin: () => server.suspend(),
    end: () => server.resume(),
    isTold: false,
  }),
  'cut off from everybody': ({ workers, frontends }) => ({
    begin: () => [workers, frontends].forEach((proxy) => proxy.cut()),
    end: () => [workers, frontends].forEach((proxy) => proxy.mend()),
    isTold: true,
  }),
  'held back by a partition that connections outlive': ({ workers, frontends }) => ({
    begin: () => [workers, frontends].forEach((proxy) => proxy.hold()),
    end: () => [workers, frontends].forEach((proxy) => proxy.letGo()),
    isTold: false,
  }),
  'slow, 200 ms each way': ({ workers, frontends }) => ({
    begin: () => [workers, frontends].forEach((proxy) => proxy.delay(200)),
    end: () => [workers, frontends].forEach((proxy) => proxy.delay(0)),
    isTold: false,
  }),
  full: ({ server }) => ({
    begin: () => limitBytes(server.port, 4_096),
    end: () => limitBytes(server.port, -1),
    isTold: false,
    refuses: true,
  }),
}

async function sceneOf(
  faultOf: (place: Place) => Fault,
  onTestFinished: (end: () => Promise<void>) => void,
): Promise<FaultScene> {
  const server = await NatsServer.start()
  onTestFinished(() => server.close())
  const [workers, frontends] = await Promise.all([
    FaultyProxy.start(server.port),
    FaultyProxy.start(server.port),
  ])
  const [worker, frontend] = [workers, frontends].map((proxy) => {
    const address = parseDiscovery(`nats://127.0.0.1:${proxy.port}`) as NatsAddress
    const discovery = new NatsDiscovery({ address, ttlMs: TTL_MS, pollMs: 50 })
    onTestFinished(async () => {
      await discovery.close()
      await proxy.close()
    })
    return discovery
  }) as [NatsDiscovery, NatsDiscovery]
  return { worker, frontend, ttlMs: TTL_MS, ...faultOf({ server, workers, frontends }) }
}

/** Sets the size limit of the bucket's stream; below its current size nothing more can be stored. */
async function limitBytes(port: number, maxBytes: number): Promise<void> {
  const connection: NatsConnection = await connect({ servers: `127.0.0.1:${port}` })
  const answer = await connection.request('$JS.API.STREAM.INFO.KV_baton_workers')
  const { config } = answer.json<{ config: Record<string, unknown> }>()
  const changed = JSON.stringify({ ...config, max_bytes: maxBytes })
  await connection.request('$JS.API.STREAM.UPDATE.KV_baton_workers', changed)
  await connection.close()
}

describe.skipIf(NATS_VERSION === null).each(Object.entries(FAULTS))(
  'nats: the server is %s',
  (_, faultOf) => {
    it.concurrent.for(DISCOVERY_FAULT_CHECKS)('$name', async ({ run }, { onTestFinished }) => {
      await run(await sceneOf(faultOf, onTestFinished))
    })
  },
)
