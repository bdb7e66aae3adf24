import { afterEach, describe, expect, it } from 'vitest'

import { tlsOf } from '../../../test/tls-fixtures.ts'
import { KitBlocks, KitTarget } from '../../testing/kv-transport-kit.ts'
import { KvTcpClient } from '../kv/kv-tcp-client.ts'
import { KvTcpServer } from '../kv/kv-tcp-server.ts'
import { WorkerConversation } from '../plane/ask-worker.ts'
import { TcpWorkerServer } from '../plane/tcp-worker-server.ts'
import type { WireTls } from './wire-tls.ts'

const FLEET = tlsOf('fleet')

/** A process that has the certificate of another fleet until it is renewed. */
class Renewable implements WireTls {
  #now = tlsOf('stranger')
  readonly #listeners = new Set<() => void>()

  get cert(): string {
    return this.#now.cert
  }

  get key(): string {
    return this.#now.key
  }

  get ca(): string {
    return this.#now.ca
  }

  get listenerCount(): number {
    return this.#listeners.size
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  renew(): void {
    this.#now = FLEET
    for (const listener of this.#listeners) listener()
  }
}

const ends: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

async function workerWith(tls: WireTls): Promise<TcpWorkerServer> {
  const serve = (): { cancel: () => void } => ({ cancel: () => undefined })
  const worker = await TcpWorkerServer.listen({ handler: { serve }, tls })
  ends.push(() => worker.close())
  return worker
}

async function open({ host, port }: TcpWorkerServer, tls: WireTls): Promise<string> {
  try {
    const options = { host, port, tls, software: '', timeoutMs: 50_000 }
    const conversation = await WorkerConversation.open(options)
    conversation.close()
    return 'open'
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('a certificate that is renewed while the process runs', () => {
  it('the port of a worker - new connections get the new one, until the port is closed', async () => {
    const tls = new Renewable()
    const worker = await workerWith(tls)
    expect(await open(worker, FLEET)).toBe('transport.tls_failed')
    tls.renew()
    expect(await open(worker, FLEET)).toBe('open')
    await worker.close()
    expect(tls.listenerCount).toBe(0)
  })

  it('a frontend - connects with the new one', async () => {
    const tls = new Renewable()
    const worker = await workerWith(FLEET)
    expect(await open(worker, tls)).toBe('transport.tls_failed')
    tls.renew()
    expect(await open(worker, tls)).toBe('open')
  })

  it('KV - both sides use the new one', async () => {
    const [serverTls, clientTls] = [new Renewable(), new Renewable()]
    const server = await KvTcpServer.listen({ tls: serverTls, leaseMs: 60_000 })
    const client = new KvTcpClient({ tls: clientTls })
    ends.push(
      () => server.close(),
      () => client.close(),
    )
    const blocks = new KitBlocks([1])
    const pull = async (): Promise<unknown> =>
      await client.pull(server.offer(blocks.pin(), blocks), [0], new KitTarget())
    await pull()
    serverTls.renew()
    const old = new KvTcpClient({ tls: tlsOf('stranger') })
    ends.push(() => old.close())
    const target = new KitTarget()
    await expect(old.pull(server.offer(blocks.pin(), blocks), [0], target)).rejects.toThrow()
    clientTls.renew()
    const fresh = new KvTcpClient({ tls: clientTls })
    ends.push(() => fresh.close())
    await fresh.pull(server.offer(blocks.pin(), blocks), [0], target)
    expect(target.taken.size).toBe(1)
  })
})
