/** Discovery with a real nats-server: the discovery contract, and failures of the server. */
import { afterEach, describe, expect, it } from 'vitest'
import { connect } from '@nats-io/transport-node'
import type { NatsConnection } from '@nats-io/transport-node'
import { Kvm } from '@nats-io/kv'
import { DISCOVERY_CHECKS, DiscoveryRecord, sampleCard } from '../../src/testing/discovery-kit.ts'
import { parseDiscovery } from '../../src/discovery/kinds/discovery-kinds.ts'
import type { NatsAddress } from '../../src/discovery/nats/nats-address.ts'
import { NatsDiscovery } from '../../src/discovery/nats/nats-discovery.ts'
import type { NatsDiscoveryOptions } from '../../src/discovery/nats/nats-discovery.ts'
import { freePort } from '../free-port.ts'
import { deadPid } from '../fixtures/discovery-folder.ts'
import { until } from '../until.ts'
import type { BatonError } from '../../src/base/index.ts'
import { FaultyProxy } from '../faulty-proxy.ts'
import { NatsServer, NATS_VERSION } from './nats-server.ts'

const ends: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

async function startServer(settings = ''): Promise<NatsServer> {
  const server = await NatsServer.start(settings)
  ends.push(() => server.close())
  return server
}

function discoveryAt(url: string, options: Partial<NatsDiscoveryOptions> = {}): NatsDiscovery {
  const address = parseDiscovery(url) as NatsAddress
  const discovery = new NatsDiscovery({ address, ttlMs: 900, pollMs: 50, ...options })
  ends.push(() => discovery.close())
  return discovery
}

const left = (record: DiscoveryRecord): readonly string[] =>
  record.told.filter((line) => line.startsWith('left'))

/** Resolves when a worker that became silent just now has expired, measured on another server. */
async function outliveTimeToLive(): Promise<void> {
  const { url, port } = await startServer()
  const sever = await registerElsewhere(port)
  const record = new DiscoveryRecord()
  await discoveryAt(url).watch(record)
  sever()
  await record.until('left 1 expired')
}

describe.skipIf(NATS_VERSION === null)(`NatsDiscovery (${NATS_VERSION}) - the contract`, () => {
  it.each(DISCOVERY_CHECKS)('$name', async ({ run }) => {
    const { url } = await startServer()
    await run({ worker: discoveryAt(url), frontend: discoveryAt(url) })
  })
})

describe.skipIf(NATS_VERSION === null)('NatsDiscovery - server down at startup', () => {
  it('worker and frontend - register and watch as soon as the server answers', async () => {
    const { port } = await startServer()
    const proxy = await FaultyProxy.start(port)
    ends.push(() => proxy.close())
    const record = new DiscoveryRecord()
    const far = `nats://127.0.0.1:${proxy.port}`
    const worker = discoveryAt(far)
    // Connected, then partitioned: answers are lost.
    const first = await worker.register(sampleCard(1))
    const missing = new DiscoveryRecord()
    await worker.watch(missing)
    proxy.cut()
    const registering = worker.register(sampleCard(2))
    const watching = discoveryAt(far).watch(record)
    await missing.until('away')
    proxy.mend()
    await registering
    await watching
    await record.until('joined 2')
    await first.close()
  })
})

describe.skipIf(NATS_VERSION === null)('NatsDiscovery - leases', () => {
  it('a worker whose process is killed - expires; another fleet gets no event', async () => {
    const { url, port } = await startServer()
    const sever = await registerElsewhere(port)
    const record = new DiscoveryRecord()
    const other = new DiscoveryRecord()
    await discoveryAt(url).watch(record)
    await discoveryAt(`${url}?prefix=other`).watch(other)
    // As with kill -9: the connection ends, the entry stays.
    sever()
    await record.until('left 1 expired')
    expect(other.told).toEqual([])
  })

  it('workers that are heard before their cards arrive and leave at once - do not return', async () => {
    const { url } = await startServer()
    const record = new DiscoveryRecord()
    const watch = await discoveryAt(url, { ttlMs: 60_000 }).watch(record)
    const worker = discoveryAt(url, { ttlMs: 60_000 })
    const beats = await connect({ servers: url.replace('nats:', '') })
    ends.push(() => beats.close())
    const ids = Array.from({ length: 300 }, (_, i) => i + 1)
    for (let from = 0; from < ids.length; from += 20) {
      const some = ids.slice(from, from + 20)
      await Promise.all(
        some.map(async (id) => {
          const registration = await worker.register(sampleCard(id))
          beats.publish(`baton.beat.${id}`)
          await registration.close()
        }),
      )
    }
    await worker.register(sampleCard(1000))
    await record.until('joined 1000')
    // What the watch has asked for has been answered, too.
    await until('only the last one is left', () => watch.cards.size === 1)
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect([...watch.cards.keys()]).toEqual(['1000'])
  })

  it('a process that died - is no orderly departure for any watcher, on its machine or elsewhere', async () => {
    const { url } = await startServer()
    const [here, late, elsewhere, starts] = Array.from({ length: 4 }, () => new DiscoveryRecord())
    await discoveryAt(url, { ttlMs: 60_000 }).register(sampleCard(1, { pid: await deadPid() }))
    // These learn of it from the one that notices it first.
    await discoveryAt(url, { ttlMs: 60_000, pollMs: 600_000 }).watch(late!)
    await discoveryAt(url, { ttlMs: 60_000, place: 'elsewhere' }).watch(elsewhere!)
    await discoveryAt(url).watch(here!)
    for (const record of [here!, late!, elsewhere!]) {
      await record.until('left 1')
      expect(record.told).toEqual(['joined 1', 'left 1 process-died'])
    }
    await discoveryAt(url).watch(starts!)
    expect(starts!.told).toEqual([])
  })

  it('workers that close cleanly - leave nothing in the bucket', async () => {
    const { url, port } = await startServer()
    const worker = discoveryAt(url)
    const registrations = await Promise.all([1, 2, 3].map((id) => worker.register(sampleCard(id))))
    for (const registration of registrations) await registration.close()
    const connection = await connect({ servers: `127.0.0.1:${port}` })
    ends.push(() => connection.close())
    const bucket = await new Kvm(connection).open('baton_workers')
    const keys: string[] = []
    for await (const key of await bucket.keys()) keys.push(key)
    expect(keys).toEqual([])
  })

  it('an id in use by a live worker elsewhere - is refused; the id of a silent worker is taken over', async () => {
    const { url, port } = await startServer()
    const sever = await registerElsewhere(port)
    await expect(discoveryAt(url).register(sampleCard(1))).rejects.toMatchObject({
      code: 'request.conflict',
    })
    sever()
    await discoveryAt(url).register(sampleCard(1))
  })
})

describe.skipIf(NATS_VERSION === null)('NatsDiscovery - server failures', () => {
  it('killed and restarted with an empty bucket - no worker leaves, all register again, changes arrive', async () => {
    const server = await startServer()
    const said: string[] = []
    const worker = discoveryAt(server.url)
    for (const id of [1, 2, 3]) {
      await worker.register(sampleCard(id), { restored: () => void said.push(`restored ${id}`) })
    }
    const record = new DiscoveryRecord()
    await discoveryAt(server.url).watch(record)
    await server.kill()
    await record.until('away')
    // Longer than the time to live: known workers stay in use.
    await outliveTimeToLive()
    expect(left(record)).toEqual([])
    await server.restart()
    await record.until('back')
    await until('all have registered again', () => said.length === 3)
    await worker.register(sampleCard(4))
    await record.until('joined 4')
    await outliveOne(record, server.port)
    expect(left(record)).toEqual(['left 9 expired'])
    const late = new DiscoveryRecord()
    await discoveryAt(server.url).watch(late)
    await until('the silent one is gone', () => !late.cards.has('9'))
    expect([...late.cards.keys()].sort()).toEqual(['1', '2', '3', '4'])
  })

  it('a worker that closes while the server is down - is gone when the server is back', async () => {
    const server = await startServer()
    const worker = discoveryAt(server.url)
    const registration = await worker.register(sampleCard(1))
    await worker.register(sampleCard(2))
    const record = new DiscoveryRecord()
    await discoveryAt(server.url).watch(record)
    await server.kill()
    await record.until('away')
    await registration.close()
    await server.restart()
    await record.until('left 1')
    expect([...record.cards.keys()]).toEqual(['2'])
  })

  it('a worker that registers again while the server is down - reports it, and is registered when the server is back', async () => {
    const server = await startServer()
    const worker = discoveryAt(server.url)
    const record = new DiscoveryRecord()
    const watching = discoveryAt(server.url)
    await watching.watch(record)
    const registration = await worker.register(sampleCard(1))
    await registration.close()
    // The session of the worker has noticed the loss, too, when its other worker has.
    const lost: BatonError[] = []
    await worker.register(sampleCard(2), { renewalFailed: (error) => lost.push(error) })
    await server.kill()
    await until('the loss is noticed', () => lost.length > 0)
    const failures: string[] = []
    const again = worker.register(sampleCard(1), {
      renewalFailed: ({ code }) => failures.push(code),
    })
    await until('it is reported', () => failures.length > 0)
    expect(failures).toEqual(['discovery.unavailable'])
    await server.restart()
    await again
    await until('it is known', () => record.cards.has('1'))
  })

  it('a worker that closes while the server does not answer - close returns, and its entry expires', async () => {
    const server = await startServer()
    const proxy = await FaultyProxy.start(server.port)
    ends.push(() => proxy.close())
    const failures: BatonError[] = []
    const worker = discoveryAt(`nats://127.0.0.1:${proxy.port}`, { place: 'elsewhere' })
    const registration = await worker.register(sampleCard(1), {
      renewalFailed: (error) => failures.push(error),
    })
    const record = new DiscoveryRecord()
    await discoveryAt(server.url).watch(record)
    await record.until('joined 1')
    proxy.cut()
    await registration.close()
    expect(failures.map(({ code }) => code)).toEqual(['discovery.unavailable'])
    await record.until('left 1')
  })

  it('a worker that closes while the server does not answer, and returns with it - replaces its entry at once', async () => {
    const server = await startServer()
    const proxy = await FaultyProxy.start(server.port)
    ends.push(() => proxy.close())
    // The entry would be deleted after ten times to live.
    const worker = discoveryAt(`nats://127.0.0.1:${proxy.port}`, { ttlMs: 60_000 })
    const first = await worker.register(sampleCard(1))
    proxy.cut()
    await first.close()
    proxy.mend()
    await worker.register(sampleCard(1, { port: 2 }))
    await expect(worker.register(sampleCard(1))).rejects.toMatchObject({ code: 'request.conflict' })
    const record = new DiscoveryRecord()
    await discoveryAt(server.url).watch(record)
    expect(record.cards.get('1')?.port).toBe(2)
  })

  it('a partitioned frontend - keeps the known workers, and then gets the missed changes', async () => {
    const server = await startServer()
    const proxy = await FaultyProxy.start(server.port)
    ends.push(() => proxy.close())
    const worker = discoveryAt(server.url)
    const first = await worker.register(sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryAt(`nats://127.0.0.1:${proxy.port}`).watch(record)
    const near = new DiscoveryRecord()
    await discoveryAt(server.url).watch(near)
    proxy.cut()
    await record.until('away')
    await outliveOne(near, server.port)
    expect(left(record)).toEqual([])
    await first.close()
    await worker.register(sampleCard(2))
    proxy.mend()
    await record.until('joined 2')
    await record.until('left 1 closed')
  })

  it('a partitioned worker - expires for the others and returns', async () => {
    const server = await startServer()
    const proxy = await FaultyProxy.start(server.port)
    ends.push(() => proxy.close())
    const worker = discoveryAt(`nats://127.0.0.1:${proxy.port}`, { place: 'elsewhere' })
    await worker.register(sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryAt(server.url).watch(record)
    proxy.cut()
    await record.until('left 1 expired')
    proxy.mend()
    await until('it is back', () => record.cards.has('1'))
  })

  it('a server that is suspended for longer than the time to live - no worker expires', async () => {
    const server = await startServer()
    const worker = discoveryAt(server.url, { place: 'elsewhere' })
    await worker.register(sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryAt(server.url).watch(record)
    server.suspend()
    await outliveTimeToLive()
    await outliveTimeToLive()
    expect(left(record)).toEqual([])
    server.resume()
    await worker.register(sampleCard(2))
    await record.until('joined 2')
    expect(left(record)).toEqual([])
  })

  it('a full server - refuses a new worker by name and keeps the known ones', async () => {
    const server = await startServer()
    const worker = discoveryAt(server.url)
    await worker.register(sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryAt(server.url).watch(record)
    const sever = await registerElsewhere(server.port, 9)
    await record.until('joined 9')
    const connection = await connect({ servers: `127.0.0.1:${server.port}` })
    ends.push(() => connection.close())
    await shrink(connection)
    const taints = ['x'.repeat(16_384)]
    await expect(worker.register(sampleCard(2, { taints }))).rejects.toMatchObject({
      code: 'discovery.unavailable',
      message: expect.stringMatching(/maximum bytes exceeded/),
    })
    sever()
    await record.until('left 9 expired')
    expect(left(record)).toEqual(['left 9 expired'])
  })

  it('a server without space for another card - reports it; a closing worker makes space', async () => {
    const server = await NatsServer.start('', ', max_memory_store: 8KB')
    ends.push(() => server.close())
    const record = new DiscoveryRecord()
    await discoveryAt(server.url).watch(record)
    const workers: NatsDiscovery[] = []
    let fault: unknown = null
    for (let id = 1; fault === null && id < 100; id++) {
      const worker = discoveryAt(server.url)
      await worker.register(sampleCard(id)).then(
        () => workers.push(worker),
        (thrown: unknown) => (fault = thrown),
      )
    }
    expect(fault).toMatchObject({
      code: 'discovery.unavailable',
      message: expect.stringMatching(/cannot be stored: insufficient.*max_memory_store/) as unknown,
    })
    await record.until(`joined ${workers.length}`)
    await workers[0]?.close()
    await record.until('left 1 closed')
    await discoveryAt(server.url).register(sampleCard(200))
    await record.until('joined 200')
    expect(left(record)).toEqual(['left 1 closed'])
  })

  it('the bucket is deleted - it is made again, all workers are in it, and no worker leaves', async () => {
    const { url, port } = await startServer()
    const said: string[] = []
    await discoveryAt(url).register(sampleCard(1), {
      renewalFailed: ({ message }) => said.push(message),
      restored: (why) => said.push(why),
    })
    const record = new DiscoveryRecord()
    await discoveryAt(url).watch(record)
    await deleteBucket(port)
    await record.until('back')
    await until('the worker has registered again', () => said.at(-1)?.includes('again') === true)
    const reason = 'the bucket baton_workers of NATS was deleted'
    expect(said[0]).toContain(reason)
    expect(record.told.filter((line) => line.startsWith(`away ${reason}`))).toHaveLength(1)
    const late = new DiscoveryRecord()
    await discoveryAt(url).watch(late)
    await late.until('joined 1')
    expect(left(record)).toEqual([])
  })

  it('the bucket is deleted, and a worker changes its card or another one joins - at once in a new bucket', async () => {
    const { url, port } = await startServer()
    // Its periodic question whether the bucket is there would come much later.
    const worker = discoveryAt(url, { ttlMs: 600_000 })
    const registration = await worker.register(sampleCard(1))
    await deleteBucket(port)
    await registration.update(sampleCard(1, { port: 2 }))
    await deleteBucket(port)
    await worker.register(sampleCard(2))
    const record = new DiscoveryRecord()
    await discoveryAt(url).watch(record)
    await record.until('joined 2')
  })

  it('the bucket is deleted and made again by another process - changes arrive', async () => {
    const { url, port } = await startServer()
    const first = await discoveryAt(url).register(sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryAt(url).watch(record)
    for (let change = 0; change < 20; change++) await first.update(sampleCard(1, { port: 100 }))
    await deleteBucket(port)
    await discoveryAt(url).register(sampleCard(2))
    await record.until('joined 2')
    await first.update(sampleCard(1, { port: 2 }))
    await until('the change arrives', () => record.cards.get('1')?.port === 2)
    expect(left(record)).toEqual([])
  })

  it('a watch of the server is lost - changes arrive, and nobody who is dead returns', async () => {
    const { url, port } = await startServer()
    const registration = await discoveryAt(url).register(sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryAt(url).watch(record)
    const sever = await registerElsewhere(port, 9)
    await record.until('joined 9')
    sever()
    await record.until('left 9 expired')
    for (let turn = 2; turn < 5; turn++) {
      await deleteWatches(port)
      await registration.update(sampleCard(1, { port: turn }))
      await until('the change arrives', () => record.cards.get('1')?.port === turn)
    }
    expect(record.told.filter((line) => line.includes('9'))).toEqual(['joined 9', 'left 9 expired'])
  })

  it('another stream has the name of the bucket - an error at once that names it', async () => {
    const { url, port } = await startServer()
    const connection = await connect({ servers: `127.0.0.1:${port}` })
    const stream = { name: 'KV_baton_workers', subjects: ['something.else'], storage: 'memory' }
    await connection.request(`$JS.API.STREAM.CREATE.${stream.name}`, JSON.stringify(stream))
    await connection.close()
    const asked = await Promise.allSettled([
      discoveryAt(url).register(sampleCard(1)),
      discoveryAt(url).watch(new DiscoveryRecord()),
    ])
    for (const each of asked) {
      const { code, message } = (each as PromiseRejectedResult).reason as BatonError
      expect(code).toBe('config.invalid')
      expect(message).toMatch(/KV_baton_workers.* another prefix/)
    }
  })

  it('unreachable at first - is retried; a wrong password is an error at once', async () => {
    const server = await startServer('authorization { user: baton, password: "a b" }')
    const good = `nats://baton:a%20b@127.0.0.1:${server.port}`
    await server.kill()
    const record = new DiscoveryRecord()
    const watching = discoveryAt(good).watch(record)
    const registering = discoveryAt(good).register(sampleCard(1))
    await server.restart()
    await Promise.all([watching, registering])
    await record.until('joined 1')
    await expect(
      discoveryAt(`nats://baton:wrong@127.0.0.1:${server.port}`).watch(record),
    ).rejects.toMatchObject({ code: 'config.invalid' })
  })
})

describe.skipIf(NATS_VERSION === null)(
  'NatsDiscovery - a server that accepts no more clients',
  () => {
    it('at the start - the reason is reported, and the frontend watches when there is a place', async () => {
      const { url, port } = await startServer('max_connections: 1')
      const other = await connectAlone(port)
      const record = new DiscoveryRecord()
      const watching = discoveryAt(url).watch(record)
      await record.until('away NATS refuses the connection: maximum connections exceeded')
      await other.close()
      await watching
      expect(record.told.at(-1)).toBe('back')
    })

    it('after it was restarted - the reason is reported, and not again with each attempt', async () => {
      const monitor = await freePort()
      const server = await startServer()
      const records = [new DiscoveryRecord(), new DiscoveryRecord()]
      for (const record of records) await discoveryAt(server.url).watch(record)
      await server.kill()
      server.configure(`max_connections: 1\nhttp: 127.0.0.1:${monitor}`)
      await server.restart()
      const refused = /^away NATS refuses the connection: maximum connections exceeded/
      const refusals = () =>
        records.map(({ told }) => told.filter((line) => refused.test(line)).length)
      await until('one of both is refused', () => Math.max(...refusals()) > 0)
      await until('several attempts were refused', async () => {
        const answer = await fetch(`http://127.0.0.1:${monitor}/varz`)
        return ((await answer.json()) as { total_connections: number }).total_connections >= 8
      })
      expect(Math.max(...refusals())).toBe(1)
    })
  },
)

describe.skipIf(NATS_VERSION === null)('NatsDiscovery - messages to other frontends', () => {
  it('a message to other frontends that is too large - is reported once, and not by workers of the same process', async () => {
    const { url } = await startServer('max_payload: 8192')
    const discovery = discoveryAt(url)
    const record = new DiscoveryRecord()
    await discovery.watch(record)
    const failures: string[] = []
    await discovery.register(sampleCard(1), {
      renewalFailed: ({ message }) => failures.push(message),
    })
    for (let i = 0; i < 3; i++) discovery.peers().tell('news', 'x'.repeat(10_000))
    const told = record.told.filter((line) => line.startsWith('refused'))
    expect(told).toEqual([
      'refused messages to other frontends above max_payload (8192) are not sent',
    ])
    expect(failures).toEqual([])
  })
})

describe.skipIf(NATS_VERSION === null)('NatsDiscovery - logins that are refused', () => {
  it('a login that is refused for a while - the reason is reported, and both sides return when it is accepted', async () => {
    const monitor = await freePort()
    const users = (password: string): string =>
      `authorization { user: baton, password: ${password} }\nhttp: 127.0.0.1:${monitor}`
    const server = await startServer(users('right'))
    const url = `nats://baton:right@127.0.0.1:${server.port}`
    const record = new DiscoveryRecord()
    const failures: string[] = []
    await discoveryAt(url).register(sampleCard(1), {
      renewalFailed: ({ message }) => failures.push(message),
      restored: (why) => failures.push(why),
    })
    await discoveryAt(url).watch(record)
    await record.until('joined 1')
    await server.kill()
    server.configure(users('other'))
    await server.restart()
    await until('the reason is reported', () =>
      record.told.some((line) => /^away .*refuses the login/.test(line)),
    )
    await until('the worker reports it', () =>
      failures.some((line) => /refuses the login/.test(line)),
    )
    // The client library gives up by default after two refusals.
    await until('several attempts of both were refused', async () => {
      const answer = await fetch(`http://127.0.0.1:${monitor}/varz`)
      return ((await answer.json()) as { total_connections: number }).total_connections >= 8
    })
    await server.kill()
    server.configure(users('right'))
    await server.restart()
    await record.until('back')
    await until('the worker has registered again', () =>
      failures.some((line) => line.includes('restored')),
    )
    expect(left(record)).toEqual([])
  })

  const limited = (permissions: string): string =>
    `authorization { users: [
      { user: baton, password: all },
      { user: limited, password: x, permissions: { publish: { allow: ">" }, subscribe: ${permissions} } }
    ] }`

  it('a login that may not hear heartbeats - an error at once', async () => {
    const { port } = await startServer(limited('{ deny: "baton.beat.>" }'))
    const watching = discoveryAt(`nats://limited:x@127.0.0.1:${port}`).watch(new DiscoveryRecord())
    await expect(watching).rejects.toMatchObject({
      code: 'config.invalid',
      message: expect.stringContaining('baton.beat.*'),
    })
  })

  it('a login that may not hear other frontends - is reported, and workers are followed all the same', async () => {
    const { port } = await startServer(limited('{ deny: "baton.peers.>" }'))
    const record = new DiscoveryRecord()
    const frontend = discoveryAt(`nats://limited:x@127.0.0.1:${port}`)
    await frontend.watch(record)
    frontend.peers().onTold('news', () => undefined)
    await record.until('refused Permissions Violation for Subscription to "baton.peers.news"')
    const worker = discoveryAt(`nats://baton:all@127.0.0.1:${port}`)
    await worker.register(sampleCard(1))
    await record.until('joined 1')
    await worker.close()
    await record.until('left 1 closed')
  })
})

/** For a server with one place, which may not have noticed yet that the test's first look at it has ended. */
async function connectAlone(port: number): Promise<NatsConnection> {
  let connection: NatsConnection | undefined
  await until('the server has a place', async () => {
    const attempt = connect({ servers: `127.0.0.1:${port}`, timeout: 1_000 })
    connection = await attempt.catch(() => undefined)
    return connection !== undefined
  })
  ends.push(() => connection!.close())
  return connection!
}

async function deleteBucket(port: number): Promise<void> {
  const connection = await connect({ servers: `127.0.0.1:${port}` })
  await connection.request('$JS.API.STREAM.DELETE.KV_baton_workers')
  await connection.close()
}

/** As when the server of a cluster that has them dies. */
async function deleteWatches(port: number): Promise<void> {
  const connection = await connect({ servers: `127.0.0.1:${port}` })
  const stream = 'KV_baton_workers'
  const answer = await connection.request(`$JS.API.CONSUMER.NAMES.${stream}`)
  const { consumers } = answer.json<{ consumers: readonly string[] }>()
  for (const name of consumers) {
    await connection.request(`$JS.API.CONSUMER.DELETE.${stream}.${name}`)
  }
  await connection.close()
}

/**
 * Another worker becomes silent and expires: one time to live has passed, as the watch of that record measures it.
 */
async function outliveOne(record: DiscoveryRecord, port: number): Promise<void> {
  const sever = await registerElsewhere(port, 9)
  await record.until('joined 9')
  sever()
  await record.until('left 9 expired')
}

/** A worker in another process; the returned function ends it like kill -9: it becomes silent and its entry stays. */
async function registerElsewhere(port: number, id = 1): Promise<() => void> {
  const proxy = await FaultyProxy.start(port)
  ends.push(() => proxy.close())
  const worker = discoveryAt(`nats://127.0.0.1:${proxy.port}`, { place: 'elsewhere' })
  await worker.register(sampleCard(id, { pid: 1 }))
  return () => proxy.cut()
}

/** Sets the size limit of the bucket's stream, so that nothing more can be stored. */
async function shrink(connection: Awaited<ReturnType<typeof connect>>): Promise<void> {
  const answer = await connection.request('$JS.API.STREAM.INFO.KV_baton_workers')
  const { config } = answer.json<{ config: Record<string, unknown> }>()
  await connection.request(
    '$JS.API.STREAM.UPDATE.KV_baton_workers',
    JSON.stringify({ ...config, max_bytes: 4_096 }),
  )
}
