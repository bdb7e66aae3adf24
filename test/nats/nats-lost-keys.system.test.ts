/** The bucket of the keys is lost on a real nats-server while a frontend uses it. */
import { connect } from '@nats-io/transport-node'
import { Kvm } from '@nats-io/kv'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openKeyStore } from '../../src/cli/guard/open-keys.ts'
import { parseDiscovery } from '../../src/discovery/index.ts'
import type { NatsAddress } from '../../src/discovery/index.ts'
import { followKeyBucket } from '../../src/host/access/key-bucket.ts'
import { createKey } from '../../src/host/access/key-entry.ts'
import { until } from '../until.ts'
import { NatsServer, NATS_VERSION } from './nats-server.ts'

const BUCKET = 'baton_keys'
const NOW = new Date('2030-01-01T00:00:00Z')

async function add(url: string, tenant: string) {
  const { text, entry } = createKey({ tenant }, NOW)
  const store = await openKeyStore(url)
  await store.add(entry)
  await store.close()
  return { id: entry.id, text }
}

async function connected(port: number) {
  const connection = await connect({ servers: `127.0.0.1:${port}` })
  onTestFinished(() => connection.close())
  return connection
}

async function deleteBucket(port: number): Promise<void> {
  await (await connected(port)).request(`$JS.API.STREAM.DELETE.KV_${BUCKET}`)
}

/** A frontend with the keys of two tenants. */
async function scene() {
  const server = await NatsServer.start()
  onTestFinished(() => server.close())
  const keys = [await add(server.url, 'one'), await add(server.url, 'two')]
  const told: string[] = []
  const opened = await followKeyBucket(parseDiscovery(server.url) as NatsAddress, {
    fault: ({ message }) => told.push(message),
    away: (why) => told.push(`away ${why}`),
    back: () => told.push('back'),
    lost: () => told.push('lost'),
    replaced: (missing) => told.push(`replaced ${missing}`),
  })
  onTestFinished(() => opened.close())
  const tenants = () =>
    opened.book.keys
      .map(({ tenant }) => tenant)
      .toSorted()
      .join()
  expect(tenants()).toBe('one,two')
  return { server, keys, told, tenants }
}

describe.skipIf(NATS_VERSION === null)('--keys nats://… - the bucket is lost', () => {
  it('deleted - its keys stay valid and it is reported; they end when somebody adds keys again', async () => {
    const { server, told, tenants } = await scene()
    await deleteBucket(server.port)
    await until('it is told', () => told.includes('lost'))
    expect(told).toEqual([`away the bucket ${BUCKET} of NATS was deleted`, 'back', 'lost'])
    expect(tenants()).toBe('one,two')
    await add(server.url, 'three')
    await until('the new key', () => tenants() === 'three')
    expect(told.at(-1)).toBe('replaced 2')
    await add(server.url, 'four')
    await until('another', () => tenants() === 'four,three')
    expect(told.filter((line) => line.startsWith('replaced'))).toEqual(['replaced 2'])
  })

  it('deleted and made again by another process - as if it had been deleted', async () => {
    const { server, told, tenants } = await scene()
    await deleteBucket(server.port)
    await new Kvm(await connected(server.port)).create(BUCKET)
    await until('it is told', () => told.includes('lost'))
    expect(told[0]).toBe(`away the bucket ${BUCKET} of NATS was deleted and made again`)
    expect(tenants()).toBe('one,two')
  })

  it('the server returns with an empty store - the keys stay valid', async () => {
    const { server, told, tenants } = await scene()
    await server.kill()
    await until('it is told', () => told.some((line) => line.startsWith('away')))
    server.forget()
    await server.restart()
    await until('the loss is told', () => told.includes('lost'))
    expect(tenants()).toBe('one,two')
    // Again, before anybody has added a key.
    await deleteBucket(server.port)
    await until('it is told again', () => told.filter((line) => line === 'back').length === 2)
    expect(tenants()).toBe('one,two')
    expect(told.filter((line) => line === 'lost')).toHaveLength(1)
  })

  it('the last keys are removed on purpose - they end', async () => {
    const { server, keys, told, tenants } = await scene()
    const bucket = await new Kvm(await connected(server.port)).open(BUCKET)
    for (const { id } of keys) await bucket.delete(id)
    await until('there are none', () => tenants() === '')
    expect(told).toEqual([])
  })
})
