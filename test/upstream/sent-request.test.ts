import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { osClock } from '../../src/os/index.ts'
import { parseUpstreamUrl, UpstreamClient } from '../../src/upstream/index.ts'
import { until } from '../until.ts'

/** More than the buffers of a connection hold. */
const BODY = Buffer.alloc(32 * 1024 * 1024, 'x')

it('an answer that begins before the request was read - the request counts as sent when it has left the process', async () => {
  let engine: Socket | undefined
  const server = createServer((socket) => {
    engine = socket
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.pause()
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  const { port } = server.address() as AddressInfo
  const client = new UpstreamClient({
    url: parseUpstreamUrl(`http://127.0.0.1:${port}`),
    clock: osClock,
  })
  onTestFinished(() => {
    client.close()
    engine?.destroy()
    server.close()
  })
  const heads: boolean[] = []
  const call = client.send(
    { method: 'POST', path: '/', body: BODY },
    {
      onHead: () => heads.push(call.isSent),
      onBody: () => undefined,
      onEnd: () => undefined,
      onError: () => undefined,
    },
  )
  await until('the answer has begun', () => Promise.resolve(heads.length > 0))
  expect(heads).toEqual([false])
  engine?.resume()
  await until('everything was sent', () => Promise.resolve(call.isSent))
})
