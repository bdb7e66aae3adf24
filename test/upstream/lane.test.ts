/** Calls of one lane reach the same process of a server, or fail. */
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { osClock } from '../../src/os/index.ts'
import { fetchWhole } from '../../src/upstream/client/fetch-json.ts'
import { Lane } from '../../src/upstream/client/lane.ts'
import { UpstreamClient } from '../../src/upstream/client/upstream-client.ts'
import { parseUpstreamUrl } from '../../src/upstream/client/upstream-url.ts'
import { until } from '../until.ts'
import { closeAfterwards } from './recorded-llama-server.ts'

/** Answers every request with the number of its connection. */
async function numbering(headers: Readonly<Record<string, string>> = {}) {
  const sockets: Socket[] = []
  const server = createServer((request, response) => {
    if (!sockets.includes(request.socket)) sockets.push(request.socket)
    if (request.url === '/dies') request.socket.destroy()
    else response.writeHead(200, headers).end(String(sockets.indexOf(request.socket)))
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  const url = parseUpstreamUrl(`http://127.0.0.1:${port}`)
  const client = new UpstreamClient({ url, clock: osClock })
  closeAfterwards(client, server)
  const ask = async (lane?: Lane, path = '/'): Promise<string> => {
    const request = { method: 'GET', path, ...(lane === undefined ? {} : { lane }) }
    return (await fetchWhole(client, request, { deadlineMs: 10_000 })).text
  }
  return { ask, client, sockets }
}

describe('Lane', () => {
  it('two lanes and other calls - each lane has a connection of its own', async () => {
    const { ask } = await numbering()
    await ask()
    const [one, two] = [new Lane(), new Lane()]
    expect([await ask(one), await ask(two), await ask()]).toEqual(['1', '2', '0'])
    expect([await ask(two), await ask(one), await ask()]).toEqual(['2', '1', '0'])
  })

  it('its connection has ended between two calls - nothing more is sent', async () => {
    const { ask, sockets } = await numbering()
    const lane = new Lane()
    await ask(lane)
    sockets[0]?.destroy()
    await until('it is gone', () => lane.isGone)
    await expect(ask(lane)).rejects.toThrow(/closed the connection before/)
    expect(sockets).toHaveLength(1)
  })

  it('its connection ends before an answer - the call is not sent again', async () => {
    const { ask, sockets } = await numbering()
    const lane = new Lane()
    await ask(lane)
    await expect(ask(lane, '/dies')).rejects.toThrow(/closed the connection before/)
    expect(sockets).toHaveLength(1)
  })

  it('a server that closes after each answer - each call has its own connection', async () => {
    const { ask } = await numbering({ Connection: 'close' })
    const lane = new Lane()
    expect([await ask(lane), await ask(lane)]).toEqual(['0', '1'])
  })

  it('the client is closed - so is the connection that waits', async () => {
    const { ask, client, sockets } = await numbering()
    await ask(new Lane())
    client.close()
    await until('it is closed', () => sockets[0]?.destroyed === true)
  })
})
