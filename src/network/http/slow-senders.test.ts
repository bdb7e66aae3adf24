import { readFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { describe, expect, it } from 'vitest'
import type { TestContext } from 'vitest'
import { HttpServer } from './http-server.ts'

const pem = (name: string): string =>
  readFileSync(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url), 'utf8')
const TLS = { cert: pem('fleet.pem'), key: pem('fleet.key') }
const TRUST = { rejectUnauthorized: false }

/** Longer than a handshake takes on a busy machine. The tests wait for them at the same time. */
const SHORT = { headMs: 1_500, requestMs: 2_500, checkMs: 20 }
type AtEnd = TestContext['onTestFinished']

async function listen(atEnd: AtEnd, tls: boolean, slowSenders = SHORT): Promise<number> {
  const server = await HttpServer.listen({
    host: '127.0.0.1',
    port: 0,
    open: () => ({
      bodyBytesMax: 1000,
      answer: () => Promise.resolve({ status: 200, headers: {}, body: 'whole' }),
      refuse: ({ row }) => ({ status: row.httpStatus, headers: {}, body: '' }),
    }),
    onFault: () => undefined,
    slowSenders,
    ...(tls ? { tls: TLS } : {}),
  })
  atEnd(() => server.close(0).then(() => undefined))
  return server.port
}

/** The received text, until the connection ends or the answer is complete. */
function untilClosed(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let got = ''
    socket.on('data', (bytes: Buffer) => {
      got += bytes.toString('latin1')
      if (got.includes('whole')) socket.end()
    })
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(got))
  })
}

/** Sends the text and nothing more. */
async function sendOnly(atEnd: AtEnd, text: string, tls: boolean, limits = SHORT): Promise<string> {
  const port = await listen(atEnd, tls, limits)
  const socket = tls
    ? connectTls({ port, host: '127.0.0.1', ALPNProtocols: ['http/1.1'], ...TRUST })
    : connect(port, '127.0.0.1')
  if (text !== '') socket.write(text)
  return await untilClosed(socket)
}

describe.concurrent.each([
  ['HTTP', false],
  ['HTTPS', true],
])('slow senders over %s', (_, tls) => {
  it('no data at all - the client is disconnected', async ({ onTestFinished: atEnd }) => {
    expect(await sendOnly(atEnd, '', tls)).not.toContain('200')
  })

  it('a head that does not end - 408, and the client is disconnected', async ({
    onTestFinished: atEnd,
  }) => {
    expect(await sendOnly(atEnd, 'POST / HTTP/1.1\r\nHost: a\r\nx-slow: ', tls)).toMatch(
      /^HTTP\/1\.1 408/,
    )
  })

  it('a body that does not end - 408, and the client is disconnected', async ({
    onTestFinished: atEnd,
  }) => {
    const head = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n'
    expect(await sendOnly(atEnd, `${head}1234`, tls)).toMatch(/^HTTP\/1\.1 408/)
  })

  it('a complete request - is answered', async ({ onTestFinished: atEnd }) => {
    const head = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n'
    // A busy machine may need longer than the short limits for a handshake.
    const long = { headMs: 60_000, requestMs: 60_000, checkMs: 20 }
    expect(await sendOnly(atEnd, `${head}1234`, tls, long)).toMatch(/^HTTP\/1\.1 200/)
  })
})

describe.concurrent('slow senders of HTTP/2', () => {
  it('no handshake - the client is disconnected', async ({ onTestFinished: atEnd }) => {
    expect(await untilClosed(connect(await listen(atEnd, true), '127.0.0.1'))).not.toContain(
      'whole',
    )
  })

  it.for([
    ['no preface', ''],
    ['a preface and no request', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'],
    // A HEADERS frame without END_HEADERS, whose CONTINUATION never comes.
    [
      'a head that does not end',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\0\0\0\0\x01\x82',
    ],
  ])('%s - the client is disconnected', async ([, bytes = ''], { onTestFinished: atEnd }) => {
    const port = await listen(atEnd, true)
    const socket = connectTls({ port, host: '127.0.0.1', ALPNProtocols: ['h2'], ...TRUST })
    socket.write(Buffer.from(bytes, 'latin1'))
    expect(await untilClosed(socket)).not.toContain('whole')
  })

  it('a body that does not end - 408, and the connection stays open', async ({
    onTestFinished: atEnd,
  }) => {
    const session = connectHttp2(`https://127.0.0.1:${await listen(atEnd, true)}`, TRUST)
    atEnd(() => session.destroy())
    const statusOf = (body: string, isWhole: boolean): Promise<unknown> =>
      new Promise((resolve) => {
        const stream = session.request({ ':method': 'POST', ':path': '/' })
        stream.on('response', (headers) => resolve(headers[':status']))
        stream.on('error', () => undefined)
        stream.on('close', () => resolve('none'))
        stream.resume()
        stream.write(body)
        if (isWhole) stream.end()
      })
    expect(await statusOf('1234', false)).toBe(408)
    expect(await statusOf('1234', true)).toBe(200)
  })

  it('a head over 16 KiB - 431', async ({ onTestFinished: atEnd }) => {
    const session = connectHttp2(`https://127.0.0.1:${await listen(atEnd, true)}`, TRUST)
    atEnd(() => session.destroy())
    session.on('error', () => undefined)
    const status = await new Promise((resolve) => {
      const stream = session.request({ ':path': '/', 'x-long': 'a'.repeat(20_000) })
      stream.on('response', (headers) => resolve(headers[':status']))
      stream.on('error', () => undefined)
      stream.on('close', () => resolve('refused'))
    })
    expect(status).toBe(431)
  })
})
