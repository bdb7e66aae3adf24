import { describe, it } from 'vitest'

import { KvTcpClient } from './kv-tcp-client.ts'
import { KvTcpServer } from './kv-tcp-server.ts'
import { KV_TRANSPORT_CASES } from '../../testing/kv-transport-kit.ts'
import type { KvTransportFactory } from '../../testing/kv-transport-kit.ts'

const tcp: KvTransportFactory = async (settings) => {
  const server = await KvTcpServer.listen({ ...settings, secret: 's3cret', checksum: true })
  const createClient = (): KvTcpClient => new KvTcpClient({ secret: 's3cret' })
  return { server, client: createClient(), createClient }
}

const unchecked: KvTransportFactory = async (settings) => {
  const server = await KvTcpServer.listen(settings)
  const createClient = (): KvTcpClient => new KvTcpClient()
  return { server, client: createClient(), createClient }
}

for (const [name, factory] of Object.entries({ tcp, unchecked })) {
  describe(`KV transport ${name}`, () => {
    for (const transportCase of KV_TRANSPORT_CASES) {
      it(`transport - ${transportCase.name}`, () => transportCase.run(factory))
    }
  })
}
