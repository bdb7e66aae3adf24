/**
 * The listening side of HTTP: plain HTTP/1.1, or TLS with HTTP/2 if the client offers it (ALPN) and HTTP/1.1
 * otherwise.
 *
 * Owns what both need and Node does differently (ending connections), and the limits for slow senders and for the
 * number of requests. HTTP/2 uses Node's compatibility API: a stream looks like a request and a response of
 * HTTP/1.1, except where `isHttp2` is checked.
 */
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Http2SecureServer, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { boundedHead, limitHttp2 } from './http2-senders.ts'
import type { SlowSenderLimits } from './slow-sender-limits.ts'

/** Certificate and private key as PEM. */
export interface HttpTls {
  readonly cert: string
  readonly key: string
}

type OnRequest = (req: IncomingMessage, res: ServerResponse) => void

const DEFAULT_SLOW_SENDERS: SlowSenderLimits = {
  headMs: 20_000,
  requestMs: 120_000,
  checkMs: 5_000,
}
const KEEP_ALIVE_MS = 65_000
/** Most concurrent requests on one HTTP/2 connection. */
const STREAMS_MAX = 256
/** An error code of HTTP/2. */
const INTERNAL_ERROR = 2

export class HttpListener {
  readonly server: Server | Http2SecureServer
  readonly #sockets = new Set<Socket>()
  readonly #sessions = new Set<ServerHttp2Session>()

  constructor(
    tls: HttpTls | undefined,
    onRequest: OnRequest,
    slow: SlowSenderLimits = DEFAULT_SLOW_SENDERS,
  ) {
    const { headMs, requestMs, checkMs } = slow
    const bounds = {
      // The server refuses them itself, with a body.
      requireHostHeader: false,
      noDelay: true,
      keepAlive: true,
      headersTimeout: headMs,
      requestTimeout: requestMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: checkMs,
    }
    if (tls === undefined) this.server = createServer(bounds, onRequest)
    else this.server = this.#secureServer(tls, bounds, onRequest, slow)
    // Otherwise Node would ask for every body, also for one that is going to be refused.
    this.server.on('checkContinue', tls === undefined ? onRequest : boundedHead(onRequest))
  }

  /** Applies to new connections. */
  setTls(tls: HttpTls): void {
    if ('setSecureContext' in this.server) {
      this.server.setSecureContext({ ...tls, minVersion: 'TLSv1.2' })
    }
  }

  /** Closes connections without a request; others close after their last one. */
  closeIdle(): void {
    if ('closeIdleConnections' in this.server) this.server.closeIdleConnections()
    for (const session of this.#sessions) session.close()
  }

  closeAll(): void {
    if ('closeAllConnections' in this.server) this.server.closeAllConnections()
    for (const socket of this.#sockets) socket.destroy()
  }

  #secureServer(
    tls: HttpTls,
    bounds: object,
    onRequest: OnRequest,
    { headMs, requestMs }: SlowSenderLimits,
  ): Http2SecureServer {
    // Loaded with the first certificate, because loading takes a twentieth of the CPU time of a start.
    const { createSecureServer } = process.getBuiltinModule('node:http2')
    const server = createSecureServer(
      {
        ...bounds,
        ...tls,
        minVersion: 'TLSv1.2',
        handshakeTimeout: headMs,
        allowHTTP1: true,
        settings: { maxConcurrentStreams: STREAMS_MAX },
      },
      boundedHead(onRequest) as unknown as Parameters<typeof createSecureServer>[1],
    )
    // Node does not accept these as options here, and its defaults are longer.
    Object.assign(server, bounds)
    limitHttp2(server, { headMs, requestMs, idleMs: KEEP_ALIVE_MS })
    server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    server.on('session', (session) => {
      this.#sessions.add(session)
      session.once('close', () => this.#sessions.delete(session))
    })
    return server
  }
}

export function isHttp2({ httpVersionMajor }: IncomingMessage): boolean {
  return httpVersionMajor === 2
}

/** An HTTP/2 response does not report whether it needs a drain or was destroyed; its stream does. */
export function http2StreamOf(res: ServerResponse): ServerHttp2Stream | undefined {
  return 'stream' in res ? (res.stream as ServerHttp2Stream) : undefined
}

/** Ends a reply before its end. Over HTTP/2 Node itself gives no error code, and the client takes it for the end. */
export function breakOff(res: ServerResponse): void {
  const stream = http2StreamOf(res)
  stream?.close(INTERNAL_ERROR)
  if (stream === undefined) res.destroy()
  else stream.destroy()
}

/** The headers of an HTTP/2 request as in HTTP/1.1: without pseudo-headers, with `host`. */
export function plainHeaders(headers: IncomingMessage['headers']): Record<string, string> {
  const plain: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (!name.startsWith(':') && typeof value === 'string') plain[name] = value
  }
  const authority = headers[':authority']
  if (typeof authority === 'string') plain['host'] ??= authority
  return plain
}
