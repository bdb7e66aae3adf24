import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import type { BatonError } from '../../src/base/index.ts'
import { osClock } from '../../src/os/index.ts'
import { fetchWhole, parseUpstreamUrl, UpstreamClient } from '../../src/upstream/index.ts'
import type { UpstreamClientOptions } from '../../src/upstream/index.ts'
import { until } from '../until.ts'
import { fakeServer } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0)) await end.close()
})

const TLS = fileURLToPath(new URL('../fixtures/tls', import.meta.url))
const KEPT = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const GET = { method: 'GET', path: '/x' }
const SOON = { deadlineMs: 60_000 }
const NO_SINK = {
  onHead: () => undefined,
  onBody: () => undefined,
  onEnd: () => undefined,
  onError: () => undefined,
}

async function served(answer: (request: SeenRequest) => string | null): Promise<FakeServer> {
  const server = await fakeServer(answer)
  open.push(server)
  return server
}

function clientOf(url: string, options: Partial<UpstreamClientOptions> = {}): UpstreamClient {
  const client = new UpstreamClient({ ...options, url: parseUpstreamUrl(url), clock: osClock })
  open.push(client)
  return client
}

async function errorOf(work: Promise<unknown>): Promise<BatonError> {
  return await work.then(
    () => {
      throw new Error('it did not fail')
    },
    (error: BatonError) => error,
  )
}

describe('UpstreamClient', () => {
  it('consecutive requests - share a connection', async () => {
    const server = await served(({ socket }) => (socket.write(KEPT), null))
    const client = clientOf(server.url)
    for (let i = 0; i < 3; i++) {
      expect((await fetchWhole(client, GET, SOON)).text).toBe('ok')
    }
    expect(new Set(server.seen.map(({ socket }) => socket)).size).toBe(1)
  })

  it('requests sent at once, on new connections and on kept ones - each arrives with its own head and body', async () => {
    const server = await served(({ socket }) => (socket.write(KEPT), null))
    const client = clientOf(server.url)
    const round = async (name: string): Promise<void> => {
      await Promise.all(
        Array.from({ length: 20 }, async (_, at) => {
          const body = Buffer.from(`${name} ${at} `.repeat(at * 40 + 1))
          const answer = await fetchWhole(client, { method: 'POST', path: `/${at}`, body }, SOON)
          expect(answer.text).toBe('ok')
        }),
      )
    }
    await round('new')
    await round('kept')
    for (const { path, body } of server.seen) {
      const at = Number(path.slice(1))
      const [name] = body.split(' ')
      expect(body).toBe(`${name} ${at} `.repeat(at * 40 + 1))
    }
    expect(server.seen).toHaveLength(40)
  })

  it('`reuse: false` - is sent as Connection: close, and a new connection is used', async () => {
    const server = await served(({ socket }) => (socket.write(KEPT), null))
    const client = clientOf(server.url)
    for (let i = 0; i < 2; i++) await fetchWhole(client, { ...GET, reuse: false }, SOON)
    expect(new Set(server.seen.map(({ socket }) => socket)).size).toBe(2)
    expect(server.seen[0]?.headers['connection']).toBe('close')
  })

  it('bytes after an answer - are never taken for the next answer', async () => {
    const forged = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged'
    const server = await served(({ socket }) => (socket.write(KEPT + forged), null))
    const client = clientOf(server.url)
    const first = await fetchWhole(client, GET, SOON)
    const second = await fetchWhole(client, GET, SOON)
    expect([first.text, second.text]).toEqual(['ok', 'ok'])
    expect(new Set(server.seen.map(({ socket }) => socket)).size).toBe(2)
  })

  it('a kept connection that ends before the first byte - the request is sent once more', async () => {
    const server = await served(({ socket }) => {
      const isSecond = server.seen.filter((seen) => seen.socket === socket).length === 2
      if (isSecond) socket.destroy()
      else socket.write(KEPT)
      return null
    })
    const client = clientOf(server.url)
    for (let i = 0; i < 4; i++) expect((await fetchWhole(client, GET, SOON)).text).toBe('ok')
    expect(client.counters).toMatchObject({ retries: 3, failures: 0 })
  })

  it('every connection ends before the first byte - two attempts, then an error that permits migration', async () => {
    const server = await served(({ socket }) => (socket.destroy(), null))
    const error = await errorOf(fetchWhole(clientOf(server.url), GET, SOON))
    expect(error.code).toBe('transport.disconnected')
    expect(server.seen.length).toBe(2)
  })

  it('`retries: false` - one attempt', async () => {
    const server = await served(({ socket }) => (socket.destroy(), null))
    await errorOf(fetchWhole(clientOf(server.url), { ...GET, retries: false }, SOON))
    expect(server.seen.length).toBe(1)
  })

  it('a truncated response - is not retried', async () => {
    const cut = 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc'
    const server = await served(() => cut)
    const error = await errorOf(fetchWhole(clientOf(server.url), GET, SOON))
    expect(error.code).toBe('transport.disconnected')
    expect(server.seen.length).toBe(1)
  })

  it('connection refused - fails; after three failures the circuit breaker opens', async () => {
    const server = await served(() => KEPT)
    await server.close()
    const client = clientOf(server.url)
    for (let i = 0; i < 3; i++) {
      expect((await errorOf(fetchWhole(client, GET, SOON))).code).toBe('transport.cannot_connect')
    }
    expect(client.breaker.state).toBe('open')
    await errorOf(fetchWhole(client, GET, SOON))
    expect(client.counters).toMatchObject({ calls: 3, refused: 1, failures: 3 })
  })

  it.each([
    [
      'TLS at a server without it',
      'does not speak TLS',
      (port: number) => `https://127.0.0.1:${port}`,
    ],
    ['a closed port', 'nothing listens there', () => 'http://127.0.0.1:1'],
    ['an unknown name', 'host name', () => 'http://no-such-host.invalid'],
  ])('%s - the error names why no connection was opened', async (_name, reason, urlOf) => {
    const server = createServer((socket) => socket.end('HTTP/1.1 400 X\r\n\r\n'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    open.push(server)
    const { port } = server.address() as AddressInfo
    const error = await errorOf(fetchWhole(clientOf(urlOf(port)), GET, SOON))
    expect([error.code, error.message]).toEqual([
      'transport.cannot_connect',
      expect.stringContaining(reason),
    ])
  })

  it.each([
    ['does not answer', '', { headMs: 30 }],
    ['stops in the middle', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc', { idleMs: 30 }],
  ])('a server that %s - times out', async (_name, bytes, deadlines) => {
    const server = await served(({ socket }) => (socket.write(bytes), null))
    const client = clientOf(server.url, { deadlines })
    const error = await errorOf(fetchWhole(client, GET, SOON))
    expect(error.code).toBe('transport.connection_timeout')
  })

  it.each([
    ['https://127.0.0.1', undefined, null],
    ['https://127.0.0.1', 'engines.example', 'engines.example'],
    ['https://localhost', undefined, 'localhost'],
  ])('%s, an address of %s - verifies the certificate for %s', async (host, hostName, name) => {
    const asked: string[] = []
    const listener = createTlsServer({
      key: readFileSync(`${TLS}/fleet.key`),
      cert: readFileSync(`${TLS}/fleet.pem`),
      SNICallback: (server, done) => {
        asked.push(server)
        done(null)
      },
    })
    listener.on('tlsClientError', () => undefined)
    await new Promise<void>((resolve) => listener.listen(0, resolve))
    open.push(listener)
    const warned: unknown[] = []
    const onWarning = (warning: Error): void => void warned.push(warning)
    process.on('warning', onWarning)
    const { port } = listener.address() as AddressInfo
    const url = parseUpstreamUrl(`${host}:${port}`, hostName)
    const client = new UpstreamClient({ url, clock: osClock })
    open.push(client)
    const error = await errorOf(fetchWhole(client, GET, SOON))
    expect(error.code).toBe('transport.cannot_connect')
    expect(error.message).toMatch(/certificate is not trusted \(\w+\); .* NODE_EXTRA_CA_CERTS/)
    process.off('warning', onWarning)
    expect([asked, warned]).toEqual([name === null ? [] : [name], []])
  })

  it.runIf(existsSync('/proc/net/tcp'))(
    'an idle connection - has TCP keep-alive enabled',
    async () => {
      const server = await served(() => null)
      clientOf(server.url).send({ ...GET, body: '{}' }, NO_SINK)
      const port = Number(new URL(server.url).port).toString(16).toUpperCase().padStart(4, '0')
      // Addresses, state (01: established), queues, timer (02: keep-alive).
      const timed = new RegExp(`: [0-9A-F]+:[0-9A-F]+ [0-9A-F]+:${port} 01 [0-9A-F:]+ 02:`)
      await until('its timer runs', () => timed.test(readFileSync('/proc/net/tcp', 'utf8')))
    },
  )

  it('a client error (4xx) - does not count as a failure of the server', async () => {
    const server = await served(() => 'HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n')
    const client = clientOf(server.url)
    for (let i = 0; i < 5; i++) await fetchWhole(client, GET, SOON)
    expect(client.breaker.state).toBe('closed')
  })

  it.each([
    [1, 0],
    [2, 0],
    [3, 1],
  ])('%i concurrent calls with a limit of 2 - %i are refused', async (calls, refused) => {
    const server = await served(() => null)
    const client = clientOf(server.url, { callsMax: 2 })
    const errors: string[] = []
    for (let i = 0; i < calls; i++) {
      client.send(GET, {
        onHead: () => undefined,
        onBody: () => undefined,
        onEnd: () => undefined,
        onError: (error) => errors.push(error.code),
      })
    }
    expect(errors).toEqual(Array.from({ length: refused }, () => 'capacity.worker_overloaded'))
    expect(client.counters.inFlight).toBe(calls - refused)
  })

  it('an aborted call - closes its connection', async () => {
    let isClosed = false
    const server = await served(({ socket }) => {
      socket.on('close', () => {
        isClosed = true
      })
      return null
    })
    const client = clientOf(server.url)
    const call = client.send(GET, {
      onHead: () => undefined,
      onBody: () => undefined,
      onEnd: () => undefined,
      onError: () => undefined,
    })
    await until('the request is there', () => server.seen.length === 1)
    call.abort()
    await until('the server has seen the end', () => isClosed)
    expect(client.counters.inFlight).toBe(0)
  })

  it('a header with a line break - is refused', async () => {
    const server = await served(() => KEPT)
    const request = { ...GET, headers: { 'X-A': 'b\r\nX-C: d' } }
    const error = await errorOf(fetchWhole(clientOf(server.url), request, SOON))
    expect(error.code).toBe('request.invalid_argument')
    expect(server.seen.length).toBe(0)
  })
})
