import { expect, it } from 'vitest'
import { NATS_VERSION, NatsServer } from './nats-server.ts'

it.skipIf(NATS_VERSION === null)(
  'a test server whose port another one has taken while it was down - is not taken for started again',
  async () => {
    const server = await NatsServer.start()
    await server.kill()
    const other = await NatsServer.start('', '', server.port)
    try {
      expect(other.port).toBe(server.port)
      await expect(server.restart()).rejects.toThrow(/nats-server/)
    } finally {
      await other.close()
      await server.close()
    }
  },
)
