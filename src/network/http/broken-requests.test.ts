/** Requests that the HTTP parser refuses, and bodies that are refused by their length: the client reads why. */
import { readFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { rawExchange, serve, streamOf, text, url } from '../../../test/network/http-trial.ts'
import type { StreamWriter } from '../../frontend/index.ts'
import { until } from '../../../test/until.ts'

const pem = (name: string): string =>
  readFileSync(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url), 'utf8')
const TLS = { cert: pem('fleet.pem'), key: pem('fleet.key') }
const HOUR_MS = 3_600_000
const chunked = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'

/** A connection that the server may reset, and what has arrived on it. */
function open(port: number): { socket: Socket; seen: { answer: string; isClosed: boolean } } {
  const socket = connect(port, '127.0.0.1')
  const seen = { answer: '', isClosed: false }
  socket.on('data', (bytes) => (seen.answer += bytes.toString('latin1')))
  socket.on('error', () => undefined)
  socket.on('close', () => (seen.isClosed = true))
  return { socket, seen }
}

describe('requests that are not valid HTTP', () => {
  it.each([
    ['no HTTP', 'hello\r\n\r\n', 400],
    ['an unknown method', 'BREW / HTTP/1.1\r\nHost: x\r\n\r\n', 400],
    ['no host', 'GET / HTTP/1.1\r\n\r\n', 400],
    [
      'two lengths',
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
      400,
    ],
    ['a chunk without a size', `${chunked}zz\r\n`, 400],
    ['chunk extensions without an end', `${chunked}1;${'a'.repeat(20_000)}`, 413],
    [
      'headers that are too large',
      `GET / HTTP/1.1\r\nHost: x\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`,
      431,
    ],
    ['headers that go on and on', `GET / HTTP/1.1\r\nHost: x\r\nx: ${'a'.repeat(3_000_000)}`, 431],
    ['an unknown expectation', 'GET / HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n', 417],
  ])('%s - an error with a body, and the connection ends', async (_name, request, status) => {
    const trial = await serve(async () => text('ok'))
    const answer = await rawExchange(trial.server.port, request)
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} [A-Z]`))
    expect(answer).toMatch(/\r\nconnection: close\r\n/i)
    expect(answer).toMatch(/\r\n\r\nrequest\.(invalid_argument|payload_too_large)$/)
    await until('the request has ended', () => trial.server.requestsActive === 0)
  })

  it('a broken request after a whole one - each gets its answer', async () => {
    const trial = await serve(async () => text('first'))
    const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
    const socket = connect(trial.server.port, '127.0.0.1')
    let answer = ''
    socket.on('data', (bytes) => (answer += bytes.toString('latin1')))
    socket.write(request)
    await until('the first answer', () => answer.endsWith('first'))
    socket.write('hello\r\n\r\n')
    await until('the second answer', () => answer.endsWith('request.invalid_argument'))
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400'])
  })

  it.each([
    ['garbage', 'hello\r\n\r\n', [200, 200, 400]],
    ['a broken body', `${chunked}zz\r\n`, [200, 200, 400]],
    ['a request after the last', 'GET /c HTTP/1.1\r\nHost: x\r\n\r\n', [200, 200], 'close'],
  ])(
    '%s behind whole requests that wait for their answers - these come first',
    async (_, rest, statuses, connection = 'keep-alive') => {
      const asked: string[] = []
      const answers: (() => void)[] = []
      const trial = await serve(async ({ path }) => {
        asked.push(path)
        await new Promise<void>((resolve) => answers.push(resolve))
        return text(path)
      })
      const { socket, seen } = open(trial.server.port)
      const requests = `GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: ${connection}\r\n\r\n`
      socket.write(requests + rest)
      await until('both are asked', () => answers.length === 2)
      // The client goes on, and the later answer is ready first.
      socket.write('hello\r\n\r\n')
      answers[1]?.()
      answers[0]?.()
      await until('the connection is closed', () => seen.isClosed)
      const given = [...seen.answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) =>
        Number(status),
      )
      expect(given).toEqual(statuses)
      expect(seen.answer).toMatch(/\r\n\r\n\/aHTTP[^]*\r\n\r\n\/b/)
      expect(asked).toEqual(['/a', '/b'])
    },
  )

  it('a broken request after one whose answer is being sent - comes after that answer, not into it', async () => {
    const writers: StreamWriter[] = []
    const trial = await serve(async () =>
      streamOf((writer) => {
        writers.push(writer)
        writer.write('part', false)
      }),
    )
    const { socket, seen } = open(trial.server.port)
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until('the first part', () => seen.answer.includes('part'))
    socket.write('hello\r\n\r\n')
    // The server has read it when it has answered somebody who came later.
    await rawExchange(trial.server.port, 'hello\r\n\r\n')
    writers[0]?.write('last', false)
    writers[0]?.end()
    await until('the connection is closed', () => seen.isClosed)
    expect(seen.answer).toMatch(
      /^HTTP\/1\.1 200 [^]*part[^]*last[^]*HTTP\/1\.1 400 [^]*request\.invalid_argument$/,
    )
  })

  it('a client that goes away while its whole request is answered, after a broken one - ends that request', async () => {
    const trial = await serve(async () => await new Promise(() => {}))
    const { socket } = open(trial.server.port)
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\nhello\r\n\r\n')
    await until('it is asked', () => trial.server.requestsActive === 1)
    socket.destroy()
    await until('the request has ended', () => trial.server.requestsActive === 0)
  })
})

describe('CONNECT', () => {
  const CONNECT = 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n'

  it('is refused with a body, and the connection ends', async () => {
    const trial = await serve(async () => text('ok'))
    const answer = await rawExchange(trial.server.port, CONNECT)
    expect(answer).toMatch(/^HTTP\/1.1 501 Not Implemented\r\n/)
    expect(answer).toMatch(/\r\nconnection: close\r\n/i)
    expect(answer).toMatch(/\r\n\r\nruntime.not_implemented$/)
  })

  it('a client that sends on through the tunnel that it wants - gets the answer, too', async () => {
    const trial = await serve(async () => text('ok'))
    const { socket, seen } = open(trial.server.port)
    socket.write(CONNECT + 'x'.repeat(1_000_000))
    await until('the connection is closed', () => seen.isClosed)
    expect(seen.answer).toMatch(/^HTTP\/1.1 501 .*runtime.not_implemented$/s)
  })

  it('after a request whose answer is being sent - does not get into that answer', async () => {
    const trial = await serve(async () => ({
      status: 200,
      headers: {},
      body: { open: (writer) => writer.write('part', false) },
    }))
    const { socket, seen } = open(trial.server.port)
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until('the first part', () => seen.answer.includes('part'))
    socket.write(CONNECT)
    await until('the connection is closed', () => seen.isClosed)
    expect(seen.answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200'])
  })

  it('over HTTP/2 - is refused with a body', async () => {
    const trial = await serve(async () => text('ok'), { tls: TLS })
    const session = connectHttp2(`https://127.0.0.1:${trial.server.port}`, {
      rejectUnauthorized: false,
    })
    onTestFinished(() => session.destroy())
    const stream = session.request({ ':method': 'CONNECT', ':authority': 'example.com:443' })
    let status: unknown
    let body = ''
    stream.on('response', (headers) => (status = headers[':status']))
    for await (const piece of stream) body += String(piece)
    expect([status, body]).toEqual([501, 'runtime.not_implemented'])
  })
})

describe('bodies that are too large', () => {
  const early = { status: 401, headers: {}, body: 'who are you?' }
  it.each([
    ['a length far above the limit', {}, 99_999_999_999, 413, 'request.payload_too_large'],
    ['a length just above the limit', {}, 1001, 413, 'request.payload_too_large'],
    ['a reply that needs no body', { early }, 99_999_999_999, 401, 'who are you?'],
  ])('%s - is answered at once', async (_name, limits, length, status, body) => {
    // A server that waited for the body would do so for an hour.
    const trial = await serve(async () => text('late'), { ...limits, refusedBodyMs: HOUR_MS })
    const socket = connect(trial.server.port, '127.0.0.1')
    let answer = ''
    socket.on('data', (bytes) => (answer += bytes.toString('latin1')))
    socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\nbegin`)
    await until('the answer', () => answer.endsWith(body))
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} [^]*\r\nconnection: close\r\n`, 'i'))
    socket.destroy()
    await until('the request has ended', () => trial.server.requestsActive === 0)
  })

  it('a client that sends without an end - has its answer when it is disconnected', async () => {
    const trial = await serve(async () => text('late'), { refusedBodyMs: HOUR_MS })
    const { socket, seen } = open(trial.server.port)
    socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n')
    await until('the connection is closed', () => {
      if (!seen.isClosed) socket.write(Buffer.alloc(100_000))
      return seen.isClosed
    })
    expect(seen.answer).toMatch(/^HTTP\/1.1 413 [^]*request\.payload_too_large$/)
  })

  it('the server - answers others meanwhile', async () => {
    const trial = await serve(async () => text('ok'), { refusedBodyMs: HOUR_MS })
    const socket = connect(trial.server.port, '127.0.0.1')
    socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n')
    await until('it waits', () => trial.server.requestsActive === 1)
    expect(await (await fetch(url(trial))).text()).toBe('ok')
    socket.destroy()
  })
})
