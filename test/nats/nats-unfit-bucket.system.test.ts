/** Buckets on a real nats-server that somebody else has made, or changed, so that they lose what Baton writes. */
import { connect } from '@nats-io/transport-node'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openKeyStore } from '../../src/cli/guard/open-keys.ts'
import { parseDiscovery } from '../../src/discovery/index.ts'
import type { NatsAddress } from '../../src/discovery/index.ts'
import { NatsDiscovery } from '../../src/discovery/nats/nats-discovery.ts'
import { DiscoveryRecord, sampleCard } from '../../src/testing/discovery-kit.ts'
import { FaultyProxy } from '../faulty-proxy.ts'
import { NatsServer, NATS_VERSION } from './nats-server.ts'

async function startServer() {
  const server = await NatsServer.start()
  onTestFinished(() => server.close())
  const connection = await connect({ servers: `127.0.0.1:${server.port}` })
  onTestFinished(() => connection.close())
  const ask = async (what: 'CREATE' | 'UPDATE', bucket: string, changed: object): Promise<void> => {
    const name = `KV_${bucket}`
    const stream = {
      name,
      subjects: [`$KV.${bucket}.>`],
      storage: 'memory',
      max_msgs_per_subject: 1,
      allow_rollup_hdrs: true,
      allow_direct: true,
      discard: 'new',
      ...changed,
    }
    const answer = await connection.request(
      `$JS.API.STREAM.${what}.${name}`,
      JSON.stringify(stream),
    )
    expect(answer.json()).not.toHaveProperty('error')
  }
  return { server, ask }
}

function discoveryAt(url: string): NatsDiscovery {
  const discovery = new NatsDiscovery({ address: parseDiscovery(url) as NatsAddress, pollMs: 50 })
  onTestFinished(() => discovery.close())
  return discovery
}

describe.skipIf(NATS_VERSION === null)('a bucket that loses what is written', () => {
  it.each([
    [
      'deletes cards before they are written again',
      'max_age',
      { max_age: 2e9, duplicate_window: 2e9 },
    ],
    ['confirms no write', 'no_ack', { no_ack: true }],
  ])('%s - an error that says what to change', async (_, setting, config) => {
    const { server, ask } = await startServer()
    await ask('CREATE', 'baton_workers', config)
    const asked = await Promise.allSettled([
      discoveryAt(server.url).register(sampleCard(1)),
      discoveryAt(server.url).watch(new DiscoveryRecord()),
    ])
    const reason = {
      code: 'config.invalid',
      message: expect.stringMatching(new RegExp(`KV_baton_workers .*${setting}`)) as string,
    }
    for (const each of asked) expect(each).toMatchObject({ status: 'rejected', reason })
  })

  it('keys are kept for ever - a bucket that deletes them some day is refused', async () => {
    const { server, ask } = await startServer()
    await ask('CREATE', 'baton_keys', { max_age: 86_400e9 })
    await expect(openKeyStore(server.url)).rejects.toMatchObject({
      code: 'config.invalid',
      message: expect.stringMatching(
        /KV_baton_keys of NATS deletes entries after 86400 s.*max_age to 0/,
      ) as string,
    })
  })

  it('it is changed while processes run - is reported at the next connection, until it is mended; known workers stay', async () => {
    const { server, ask } = await startServer()
    await discoveryAt(server.url).register(sampleCard(1))
    const proxy = await FaultyProxy.start(server.port)
    onTestFinished(() => proxy.close())
    const record = new DiscoveryRecord()
    await discoveryAt(`nats://127.0.0.1:${proxy.port}`).watch(record)
    await ask('UPDATE', 'baton_workers', { max_age: 0, no_ack: true })
    proxy.cut()
    await record.until('away')
    proxy.mend()
    await record.until('no_ack')
    await ask('UPDATE', 'baton_workers', { max_age: 0, no_ack: false })
    await record.until('back')
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
  })
})
