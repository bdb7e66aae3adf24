/** Keys in a bucket of a real nats-server: created, revoked and corrupted while frontends watch it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect } from '@nats-io/transport-node'
import { Kvm } from '@nats-io/kv'
import { openKeys, openKeyStore } from '../../src/cli/guard/open-keys.ts'
import { parseDiscovery } from '../../src/discovery/index.ts'
import { followKeyBucket } from '../../src/host/access/key-bucket.ts'
import type { KeyBook } from '../../src/host/access/key-book.ts'
import { createKey } from '../../src/host/access/key-entry.ts'
import type { NatsAddress } from '../../src/discovery/index.ts'
import { until } from '../until.ts'
import { NatsServer, NATS_VERSION } from './nats-server.ts'

/** A read-only login must not create keys. */
const LOGINS = `authorization { users = [
  { user: operator, password: o }
  { user: reader, password: r, permissions: { publish: { deny: "$KV.baton_keys.>" } } }
] }`
const NOW = new Date('2030-01-01T00:00:00Z')

describe.skipIf(NATS_VERSION === null)('--keys nats://…', () => {
  let server: NatsServer
  let url: string
  let reader: string
  let book: KeyBook
  let close: () => Promise<void>
  const told: string[] = []

  beforeAll(async () => {
    server = await NatsServer.start(LOGINS)
    reader = server.url.replace('//', '//reader:r@')
    url = server.url.replace('//', '//operator:o@')
    const opened = await followKeyBucket(parseDiscovery(reader) as NatsAddress, {
      fault: ({ message }) => told.push(message),
      away: () => told.push('away'),
      back: () => told.push('back'),
      lost: () => told.push('lost'),
      replaced: () => told.push('replaced'),
    })
    ;({ book, close } = { book: opened.book, close: () => opened.close() })
  })

  afterAll(async () => {
    await close()
    await server.close()
  })

  async function add(tenant: string): Promise<{ readonly id: string; readonly text: string }> {
    const { text, entry } = createKey({ tenant }, NOW)
    const store = await openKeyStore(url)
    await store.add(entry)
    await expect(store.add(entry)).rejects.toMatchObject({ code: 'request.conflict' })
    await store.close()
    return { id: entry.id, text }
  }

  it('a key - is accepted as soon as it is created, and refused once revoked', async () => {
    const { id, text } = await add('acme')
    await until('the key opens', () => book.keyOf(text)?.tenant === 'acme')
    const store = await openKeyStore(url)
    expect((await store.list()).map((key) => [key.id, key.tenant])).toEqual([[id, 'acme']])
    expect(JSON.stringify(await store.list())).not.toContain(text)
    expect(await store.change('nothere1', (key) => key)).toBe(false)
    expect(await store.change(id, (key) => ({ ...key, revokedAt: NOW.toISOString() }))).toBe(true)
    await until('the key is refused', () => book.keyOf(text) === null)
    await store.close()
  })

  it('a read-only login - cannot create a key', async () => {
    const store = await openKeyStore(reader)
    const { entry } = createKey({ tenant: 'thief' }, NOW)
    await expect(store.add(entry)).rejects.toThrow(/NATS is unavailable/)
    await store.close()
  })

  it('a corrupt entry - leaves its key unchanged and is reported; a deleted key is refused', async () => {
    const { id, text } = await add('broken')
    await until('the key opens', () => book.keyOf(text) !== null)
    const connection = await connect({
      servers: server.url.replace('nats://', ''),
      user: 'operator',
      pass: 'o',
    })
    const bucket = await new Kvm(connection).open('baton_keys')
    await bucket.put(id, '{"tenant":5}')
    await bucket.put('another1', bucketText(await bucket.get(id)))
    await until('both faults are told', () => told.length === 2)
    expect(told[0]).toContain(`key ${id}: `)
    expect(told[1]).toContain('key another1: ')
    expect(book.keyOf(text)?.tenant).toBe('broken')
    await bucket.delete(id)
    await bucket.delete('another1')
    await until('the key is gone', () => book.keyOf(text) === null)
    await connection.close()
  })

  it('a server that is down - keys stay unchanged; changes arrive when it is back', async () => {
    const before = await add('before')
    await until('the key opens', () => book.keyOf(before.text) !== null)
    await server.kill()
    await until('the loss is told', () => told.includes('away'))
    expect(book.keyOf(before.text)?.tenant).toBe('before')
    await server.restart()
    const after = await add('after')
    await until('both open', () => book.keyOf(after.text) !== null && told.includes('back'))
    expect(book.keyOf(before.text)?.tenant).toBe('before')
  })

  it('nats - uses the server and prefix of the discovery', async () => {
    const discovery = parseDiscovery(`${url}?prefix=other`)
    const own = await openKeys({ keys: 'nats', discovery, logLevel: 'silent' })
    expect(own?.book.size).toBe(0)
    await own?.close()
    const elsewhere = parseDiscovery('file:/tmp/x')
    await expect(
      openKeys({ keys: 'nats', discovery: elsewhere, logLevel: 'silent' }),
    ).rejects.toThrow('--keys nats needs --discovery nats://')
  })

  it('no server - one sentence after a timeout', async () => {
    const nobody = parseDiscovery('nats://127.0.0.1:9') as NatsAddress
    const quiet = () => undefined
    const observer = { fault: quiet, away: quiet, back: quiet, lost: quiet, replaced: quiet }
    await expect(followKeyBucket(nobody, observer, 300)).rejects.toThrow(
      'NATS is unavailable: 127.0.0.1:9 has not answered for 0.3 s',
    )
  })
})

function bucketText(entry: { string(): string } | null): string {
  return entry?.string() ?? ''
}
