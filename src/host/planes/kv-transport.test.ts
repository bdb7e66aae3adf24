import { existsSync } from 'node:fs'
import { describe, it } from 'vitest'

import { KvTcpClient } from './kv-tcp-client.ts'
import { KvTcpServer } from './kv-tcp-server.ts'
import { KV_TRANSPORT_CASES } from './kv-transport-kit.ts'
import type { KvTransportFactory } from './kv-transport-kit.ts'

const tcp: KvTransportFactory = async (settings) => {
  const server = await KvTcpServer.listen({ ...settings, secret: 's3cret', checksum: true })
  const createClient = (): KvTcpClient => new KvTcpClient({ secret: 's3cret' })
  return { server, client: createClient(), createClient }
}

const SHM_DIR = '/dev/shm'

const shm: KvTransportFactory = async (settings) => {
  const options = { secret: 's3cret', shmDir: SHM_DIR }
  const server = await KvTcpServer.listen({ ...settings, ...options, checksum: true })
  const createClient = (): KvTcpClient => new KvTcpClient(options)
  return { server, client: createClient(), createClient }
}

const unchecked: KvTransportFactory = async (settings) => {
  const server = await KvTcpServer.listen(settings)
  const createClient = (): KvTcpClient => new KvTcpClient()
  return { server, client: createClient(), createClient }
}

/** Shared memory is of Linux; elsewhere the transport is tcp and says so. */
const transports = existsSync(SHM_DIR) ? { tcp, unchecked, shm } : { tcp, unchecked }

for (const [name, factory] of Object.entries(transports)) {
  describe(`KV transport ${name}`, () => {
    for (const transportCase of KV_TRANSPORT_CASES) {
      it(`transport - ${transportCase.name}`, () => transportCase.run(factory))
    }
  })
}
