/** An HttpServer with a handler that a test gives, and raw requests to it. It is closed after the test. */
import { connect } from 'node:net'
import { onTestFinished } from 'vitest'
import type { HttpReply, HttpRequest, StreamWriter } from '../../src/frontend/index.ts'
import type { HttpTls } from '../../src/network/http/http-listener.ts'
import { HttpServer } from '../../src/network/http/http-server.ts'
import type { SlowReader } from '../../src/network/http/cut-reply.ts'

export interface ServerTrial {
  readonly server: HttpServer
  readonly faults: unknown[]
  readonly slowReaders: SlowReader[]
}

/** Starts a server on a free port; `early`: the reply that is known from the request head. */
export async function serve(
  handle: (request: HttpRequest) => Promise<HttpReply>,
  limits: {
    bodyBytesMax?: number
    bufferedBytesMax?: number
    unsentBytesMax?: number
    refusedBodyMs?: number
    early?: HttpReply
    tls?: HttpTls
    /** The server's own limits of unsent bytes. */
    hasDefaultStreamLimits?: boolean
  } = {},
): Promise<ServerTrial> {
  const faults: unknown[] = []
  const slowReaders: SlowReader[] = []
  const { bodyBytesMax = 1000, early, bufferedBytesMax = 1_000_000 } = limits
  const { unsentBytesMax = 100_000_000, refusedBodyMs } = limits
  const server = await HttpServer.listen({
    host: '127.0.0.1',
    port: 0,
    open: (head) => ({
      ...(early === undefined ? {} : { reply: early }),
      bodyBytesMax: head.method === 'GET' ? 0 : bodyBytesMax,
      answer: (body) => handle({ ...head, body }),
      refuse: ({ code, row }) => ({ status: row.httpStatus, headers: {}, body: code }),
    }),
    onFault: (error) => faults.push(error),
    ...(limits.hasDefaultStreamLimits === true
      ? {}
      : { streamLimits: { bufferedBytesMax, unsentBytesMax } }),
    onSlowReader: (reader) => slowReaders.push(reader),
    ...(refusedBodyMs === undefined ? {} : { refusedBodyMs }),
    ...(limits.tls === undefined ? {} : { tls: limits.tls }),
  })
  onTestFinished(() => server.close(0).then(() => undefined))
  return { server, faults, slowReaders }
}

/** A reply of plain text. */
export const text = (body: string): HttpReply => ({
  status: 200,
  headers: { 'content-type': 'text/plain' },
  body,
})
/** A reply of server-sent events that `open` writes. */
export const streamOf = (open: (writer: StreamWriter) => void): HttpReply => ({
  status: 200,
  headers: { 'content-type': 'text/event-stream', 'x-request-id': 'r1' },
  body: { open },
})
export const url = (trial: ServerTrial, path = '/'): string =>
  `http://127.0.0.1:${trial.server.port}${path}`

/** Sends the text of a request over a new connection; resolves with all bytes received until it closes. */
export function rawExchange(port: number, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let answer = ''
    socket.on('data', (bytes) => (answer += bytes.toString('latin1')))
    socket.on('close', () => resolve(answer))
    socket.on('error', reject)
    socket.write(request)
  })
}
