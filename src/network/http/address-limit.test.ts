import { createServer, connect } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../../../test/until.ts'
import { AddressLimit } from './address-limit.ts'

const opened: Socket[] = []
const servers: Server[] = []
afterEach(() => {
  for (const socket of opened.splice(0)) socket.destroy()
  for (const server of servers.splice(0)) server.close()
})

async function start(max: number, isExempt: (address: string) => boolean) {
  const refused: string[] = []
  const limit = new AddressLimit(max, (address) => refused.push(address), isExempt)
  const server = createServer(limit.admit)
  servers.push(server)
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  /** Resolves when the connection is still open after a while, or was closed. */
  const isKept = async (): Promise<boolean> => {
    const socket = connect(port, '127.0.0.1')
    opened.push(socket)
    let isOver = false
    socket.on('close', () => (isOver = true))
    socket.on('error', () => undefined)
    const before = await connections()
    await until('it is counted or cut', async () => isOver || (await connections()) > before - 1)
    await new Promise((resolve) => setImmediate(resolve))
    return !isOver
  }
  const connections = (): Promise<number> =>
    new Promise((resolve) => {
      server.getConnections((_, count) => resolve(count))
    })
  return { isKept, connections, refused, port }
}

describe('AddressLimit', () => {
  it('below, at and above the limit - one connection too many is closed, and reported once', async () => {
    const { isKept, connections, refused } = await start(2, () => false)
    await isKept()
    await isKept()
    await until('two connections are open', async () => (await connections()) === 2)
    await isKept()
    await isKept()
    await until('the excess connections are closed', async () => (await connections()) === 2)
    await until('all were seen', () => opened.filter(({ destroyed }) => destroyed).length === 2)
    expect(refused).toEqual(['127.0.0.1'])
  })

  it('a connection that ends - makes room for another', async () => {
    const { isKept, connections } = await start(1, () => false)
    await isKept()
    await until('one connection is open', async () => (await connections()) === 1)
    opened[0]?.destroy()
    await until('it has left', async () => (await connections()) === 0)
    await isKept()
    await until('the next connection is open', async () => (await connections()) === 1)
    expect(opened[1]?.destroyed).toBe(false)
  })

  it.each([
    ['no limit', 0, (): boolean => false],
    ['this machine', 1, (): boolean => true],
  ] as const)('%s - nothing is closed', async (_, max, isExempt) => {
    const { isKept, connections, refused } = await start(max, isExempt)
    for (let i = 0; i < 5; i++) await isKept()
    await until('all connections are open', async () => (await connections()) === 5)
    expect(refused).toEqual([])
  })
})
