/** Clients that read nothing any more, over real sockets; only the time between the looks at them is not real. */
import { readFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { serve, streamOf, text } from '../../../test/network/http-trial.ts'
import type { ServerTrial } from '../../../test/network/http-trial.ts'
import { until } from '../../../test/until.ts'
import type { CancelSignal } from '../../base/index.ts'
import type { HttpReply, HttpRequest, StreamWriter } from '../../frontend/index.ts'

const pem = (name: string): string =>
  readFileSync(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url), 'utf8')
const TLS = { cert: pem('fleet.pem'), key: pem('fleet.key') }
const TRUST = { rejectUnauthorized: false }

const LOOK_MS = 30_000
/** The first look only begins to count. */
const LEAST_LOOKS = 11
/** More than the kernel buffers for one connection. */
const LONG = 16 * 1024 * 1024
const PIECE = 256 * 1024
const CUT = 'the client read too slowly: its reply was cut'

interface Reader {
  readonly received: number
  readonly isClosed: boolean
  readonly error: Error | null
  pause(): void
  resume(): void
}

type Protocol = 'HTTP' | 'HTTPS' | 'HTTP/2'
const PROTOCOLS: Protocol[] = ['HTTP', 'HTTPS', 'HTTP/2']

function listen(
  protocol: Protocol,
  handle: (request: HttpRequest) => Promise<HttpReply>,
): Promise<ServerTrial> {
  const limits = { bufferedBytesMax: 2 * LONG, unsentBytesMax: 4 * LONG }
  return serve(handle, { ...limits, ...(protocol === 'HTTP' ? {} : { tls: TLS }) })
}

/** A request whose reply is not read before `resume`. */
function ask(protocol: Protocol, port: number): Reader {
  let received = 0
  let isClosed = false
  let error: Error | null = null
  const stream = protocol === 'HTTP/2' ? http2Stream(port) : http1Socket(protocol, port)
  stream.on('error', (thrown) => (error = thrown))
  stream.on('close', () => (isClosed = true))
  stream.on('data', (bytes: Buffer) => (received += bytes.length))
  stream.pause()
  return {
    get received() {
      return received
    },
    get isClosed() {
      return isClosed
    },
    get error() {
      return error
    },
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
  }
}

function http1Socket(protocol: Protocol, port: number): Socket {
  const to = { port, host: '127.0.0.1' }
  const socket =
    protocol === 'HTTP' ? connect(to) : connectTls({ ...to, ...TRUST, ALPNProtocols: ['http/1.1'] })
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  onTestFinished(() => void socket.destroy())
  return socket
}

function http2Stream(port: number): NodeJS.ReadWriteStream {
  const session = connectHttp2(`https://127.0.0.1:${port}`, TRUST)
  session.on('error', () => undefined)
  onTestFinished(() => session.destroy())
  return session.request({ ':path': '/' })
}

const look = (times = 1): void => void vi.advanceTimersByTime(times * LOOK_MS)

/** How many looks it takes; `before` is done before each. */
async function looksUntilCut(trial: ServerTrial, before = (): void => undefined): Promise<number> {
  let looks = 0
  await until('a reply is cut', () => {
    before()
    look()
    looks += 1
    return trial.slowReaders.length > 0
  })
  return looks
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
})
afterEach(() => {
  vi.useRealTimers()
})

describe.each(PROTOCOLS)('clients that do not read over %s', (protocol) => {
  it('a whole reply - is cut off after 300 s and one more for every 4096 bytes', async () => {
    const signals: CancelSignal[] = []
    const trial = await listen(protocol, async ({ signal }) => {
      signals.push(signal)
      return text('x'.repeat(LONG))
    })
    const client = ask(protocol, trial.server.port)
    await until('the reply is sent', () => signals.length === 1)
    const looks = await looksUntilCut(trial)
    const limitMs = expect.any(Number)
    expect(trial.slowReaders).toEqual([
      { requestId: null, unsentBytes: expect.any(Number), limit: 'unreadMs', limitMs },
    ])
    const allowedMs = 300_000 + (LONG / 4096) * 1000
    expect(trial.slowReaders[0]).toHaveProperty('limitMs', expect.closeTo(allowedMs, -4))
    expect(looks).toBeGreaterThan(allowedMs / LOOK_MS)
    await until('it is over', () => trial.server.requestsActive === 0)
    expect(signals[0]?.reason).toBe(CUT)
    client.resume()
    await until('the client knows it', () => client.isClosed)
    expect([client.received < LONG, trial.faults]).toEqual([true, []])
    if (protocol === 'HTTP/2') expect(client.error?.message).toContain('INTERNAL_ERROR')
  })

  it.each(['ASCII', 'é'])(
    'a stream that is written to all the time (%s) - is cut off, and its request is cancelled',
    async (added) => {
      const writers: StreamWriter[] = []
      const signals: CancelSignal[] = []
      const trial = await listen(protocol, async ({ signal }) => {
        signals.push(signal)
        return streamOf((writer) => {
          writers.push(writer)
          writer.write('x'.repeat(LONG), true)
        })
      })
      ask(protocol, trial.server.port)
      await until('the stream has begun', () => writers.length === 1)
      const looks = await looksUntilCut(trial, () => writers[0]?.write(added, added === 'ASCII'))
      expect(looks).toBeGreaterThan(LEAST_LOOKS)
      expect(trial.slowReaders[0]).toMatchObject({ requestId: 'r1', limit: 'unreadMs' })
      expect(signals[0]?.reason).toBe(CUT)
      await until('it is over', () => trial.server.requestsActive === 0)
    },
  )

  it('a client that reads a little every 270 s - gets its reply, until it stops', async () => {
    let pieces = 0
    const trial = await listen(protocol, async ({ signal }) =>
      streamOf((writer) => {
        const next = (): void => {
          if (signal.aborted) return
          pieces += 1
          writer.write('x'.repeat(PIECE), true)
          setImmediate(() => writer.flow?.whenRead(next))
        }
        next()
      }),
    )
    const client = ask(protocol, trial.server.port)
    for (let round = 0; round < 8; round++) {
      const before = pieces
      client.resume()
      await until('something was read', () => pieces > before)
      client.pause()
      look(9)
    }
    expect(trial.slowReaders).toEqual([])
    expect(await looksUntilCut(trial)).toBeGreaterThan(1)
    await until('it is over', () => trial.server.requestsActive === 0)
  })

  it('a stream that grows faster than its client reads - is not cut off', async () => {
    const writers: StreamWriter[] = []
    const trial = await listen(protocol, async () =>
      streamOf((writer) => void writers.push(writer)),
    )
    const client = ask(protocol, trial.server.port)
    await until('the stream has begun', () => writers.length === 1)
    let written = 0
    const write = (bytes: number): void => {
      written += bytes
      writers[0]?.write('é'.repeat(bytes / 2), false)
    }
    write(LONG)
    for (let round = 1; round <= 4; round++) {
      const before = written
      write(LONG + round * PIECE)
      client.resume()
      await until('the earlier write was read', () => client.received >= before)
      client.pause()
      // The server sees the end of its write in the same turn or soon after.
      await new Promise((resolve) => setTimeout(resolve, 50))
      // Together much more than the 79 that are allowed.
      look(60)
    }
    expect(trial.slowReaders).toEqual([])
  })

  it('a client that waits for its first byte - is not cut off', async () => {
    const asked: ((reply: HttpReply) => void)[] = []
    const trial = await listen(protocol, () => new Promise((resolve) => asked.push(resolve)))
    const clients = [ask(protocol, trial.server.port), ask(protocol, trial.server.port)]
    await until('both have asked', () => asked.length === 2)
    look(1000)
    const writers: StreamWriter[] = []
    asked[0]?.(text('whole'))
    asked[1]?.(streamOf((writer) => void writers.push(writer)))
    await until('only the stream is active', () => trial.server.requestsActive === 1)
    look(1000)
    writers[0]?.write('begun', true)
    for (const client of clients) client.resume()
    await until('both have got something', () => clients.every(({ received }) => received > 4))
    expect(trial.slowReaders).toEqual([])
  })
})

it('a pipelined reply that waits for an earlier one - is not cut off', async () => {
  const writers: StreamWriter[] = []
  let answered = 0
  const trial = await listen('HTTP', async ({ path }) => {
    answered += 1
    return path === '/' ? streamOf((writer) => void writers.push(writer)) : text('x'.repeat(LONG))
  })
  const socket = http1Socket('HTTP', trial.server.port)
  let received = 0
  socket.on('data', (bytes: Buffer) => (received += bytes.length))
  socket.write('GET /second HTTP/1.1\r\nhost: x\r\n\r\n')
  await until('both are answered', () => answered === 2)
  await until('the first has begun', () => writers.length === 1)
  writers[0]?.write('begun', true)
  await until('it is read', () => received > 0)
  look(1000)
  writers[0]?.end()
  await until('the second is read', () => received > LONG)
  expect(trial.slowReaders).toEqual([])
})

it('HTTP/2 over a connection that is not read - also a reply without a body is cut off', async () => {
  const asked = new Map<string, (reply: HttpReply) => void>()
  const trial = await listen(
    'HTTP/2',
    ({ path }) => new Promise((resolve) => asked.set(path, resolve)),
  )
  // Between both, because a client of Node reads what belongs to no stream.
  const upstreams: Socket[] = []
  const proxy = createServer((client) => {
    const upstream = connect(trial.server.port, '127.0.0.1')
    upstreams.push(upstream)
    client.pipe(upstream).pipe(client)
    for (const end of [client, upstream]) end.on('error', () => undefined)
    upstream.on('close', () => client.destroy())
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void proxy.close())
  const { port } = proxy.address() as AddressInfo
  const initialWindowSize = 2 ** 31 - 1
  const session = connectHttp2(`https://127.0.0.1:${port}`, {
    ...TRUST,
    settings: { initialWindowSize },
  })
  onTestFinished(() => session.destroy())
  session.on('error', () => undefined)
  await new Promise((resolve) => session.once('remoteSettings', resolve))
  session.setLocalWindowSize(initialWindowSize)
  for (const path of ['/empty', '/long']) {
    session.request({ ':path': path }).on('error', () => undefined)
  }
  await until('both have asked', () => asked.size === 2)
  upstreams[0]?.unpipe()
  upstreams[0]?.pause()
  asked.get('/long')?.(text('x'.repeat(LONG)))
  // The buffers of the kernel become full; the head would come before the text that is not sent yet.
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  asked.get('/empty')?.({ status: 204, headers: {}, body: '' })
  await until('both are over', () => {
    look()
    return trial.server.requestsActive === 0
  })
})
