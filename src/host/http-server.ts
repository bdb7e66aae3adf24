/**
 * node:http on one side, HTTP as values on the other.
 *
 * Owns: sockets of clients, body limits, the end of a connection, and how a stream's text reaches its socket.
 * Does not own: what any request means (room `frontend`).
 */
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { BatonError } from '../base/index.ts'
import type { ErrorCode } from '../base/index.ts'
import type { HttpReply, HttpRequest } from '../frontend/index.ts'
import { ClientSignal } from './client-signal.ts'
import { SocketStreamWriter } from './socket-stream-writer.ts'
import type { StreamLimits } from './socket-stream-writer.ts'

export interface HttpServerOptions {
  readonly host: string
  readonly port: number
  readonly handle: (request: HttpRequest) => Promise<HttpReply>
  /** A fault of ours while answering: reported, and the client gets a bare 500. */
  readonly onFault: (error: unknown) => void
  readonly bodyBytesMax?: number
  /** The reply to a request whose body was not read; absent: the form of the OpenAI API. */
  readonly refuse?: (request: HttpRequest, error: BatonError) => HttpReply
  readonly streamLimits?: StreamLimits
}

const BODY_BYTES_MAX = 45 * 1024 * 1024

export class HttpServer {
  readonly #server: Server
  readonly #options: HttpServerOptions
  #requestsActive = 0
  #whenIdle: (() => void) | null = null
  #closing = false

  private constructor(options: HttpServerOptions) {
    this.#options = options
    this.#server = createServer({ noDelay: true, keepAlive: true }, (req, res) => {
      this.#answer(req, res).catch((error: unknown) => {
        options.onFault(error)
        res.destroy()
      })
    })
    this.#server.keepAliveTimeout = 65_000
    this.#server.requestTimeout = 120_000
  }

  /** Resolves when the port is bound; throws `host.address_in_use` with what to do. */
  static async listen(options: HttpServerOptions): Promise<HttpServer> {
    const server = new HttpServer(options)
    await new Promise<void>((resolve, reject) => {
      server.#server.once('error', (error: NodeJS.ErrnoException) => {
        reject(listenError(error, options))
      })
      server.#server.listen(options.port, options.host, resolve)
    })
    return server
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get requestsActive(): number {
    return this.#requestsActive
  }

  /**
   * Takes no new connection, lets requests in flight end for at most `graceMs`, then closes what is left.
   * Returns how many requests were cut off.
   */
  async close(graceMs: number): Promise<number> {
    this.#closing = true
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve())
    })
    this.#server.closeIdleConnections()
    if (graceMs > 0) await this.#untilIdle(graceMs)
    const cutOff = this.#requestsActive
    this.#server.closeAllConnections()
    await closed
    // What was cut off has been told so: its request is cancelled before what it runs on is closed.
    await this.#untilIdle(CUT_OFF_MS)
    return cutOff
  }

  async #untilIdle(limitMs: number): Promise<void> {
    if (this.#requestsActive === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limitMs)
      this.#whenIdle = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    this.#requestsActive += 1
    const gone = new ClientSignal()
    res.once('close', () => {
      this.#requestsActive -= 1
      if (!res.writableFinished) gone.abort()
      if (this.#requestsActive === 0) this.#whenIdle?.()
    })
    if (this.#closing) res.setHeader('connection', 'close')
    const bodyBytesMax = this.#options.bodyBytesMax ?? BODY_BYTES_MAX
    const body = await readBody(req, bodyBytesMax)
    if (body === undefined) return
    if (body === null) {
      await untilSent(req, bodyBytesMax)
      res.setHeader('connection', 'close')
      const request = requestValue(req, EMPTY, gone)
      const error = bodyTooLarge(bodyBytesMax)
      return send(res, this.#options.refuse?.(request, error) ?? openAiRefusal(error), undefined)
    }
    const reply = await this.#reply(requestValue(req, body, gone))
    if (res.destroyed) return
    send(res, reply, this.#options.streamLimits)
  }

  async #reply(request: HttpRequest): Promise<HttpReply> {
    try {
      return await this.#options.handle(request)
    } catch (error) {
      this.#options.onFault(error)
      return errorReply(500, 'internal_server_error', 'Internal server error', 'runtime.internal')
    }
  }
}

function requestValue(req: IncomingMessage, body: Uint8Array, signal: ClientSignal): HttpRequest {
  const url = req.url ?? '/'
  const queryStart = url.indexOf('?')
  return {
    method: req.method ?? 'GET',
    path: queryStart < 0 ? url : url.slice(0, queryStart),
    query: queryStart < 0 ? '' : url.slice(queryStart + 1),
    // Node joins repeated headers; only `set-cookie` stays a list, and that is none of a request's.
    headers: req.headers as Record<string, string>,
    body,
    signal,
  }
}

function listenError(error: NodeJS.ErrnoException, options: HttpServerOptions): BatonError {
  const where = `${options.host}:${options.port}`
  if (error.code === 'EADDRINUSE') {
    return new BatonError(
      'host.address_in_use',
      `port ${options.port} on ${options.host} is in use: stop what listens there, or choose another with --port`,
      { data: { host: options.host, port: options.port } },
    )
  }
  return new BatonError('config.invalid', `cannot listen on ${where}: ${error.message}`, {
    cause: error,
  })
}

function errorReply(status: number, type: string, message: string, code: ErrorCode): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ error: { message, type, param: null, code } }),
  }
}

function bodyTooLarge(bytesMax: number): BatonError {
  return new BatonError(
    'request.payload_too_large',
    `the body of the request is over the limit of ${bytesMax} bytes`,
    { data: { limit: bytesMax } },
  )
}

function openAiRefusal({ row, code, message }: BatonError): HttpReply {
  return errorReply(row.httpStatus, 'invalid_request_error', message, code)
}

/**
 * The whole body; null when it is over the limit (what is over it is not kept); undefined when the client left before its
 * end: it asks for nothing any more.
 */
async function readBody(
  req: IncomingMessage,
  bytesMax: number,
): Promise<Uint8Array | null | undefined> {
  if (req.method === 'GET' || req.method === 'HEAD') {
    req.resume()
    return EMPTY
  }
  if (Number(req.headers['content-length'] ?? 0) > bytesMax) return null
  return await new Promise<Uint8Array | null | undefined>((resolve) => {
    let chunks: Buffer[] = []
    let bytes = 0
    req.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > bytesMax) {
        chunks = []
        resolve(null)
        return
      }
      chunks.push(chunk)
    })
    req.on('end', () => resolve(chunks.length === 1 ? (chunks[0] ?? EMPTY) : Buffer.concat(chunks)))
    req.on('error', () => resolve(undefined))
    req.on('close', () => resolve(undefined))
  })
}

/**
 * Lets the client send on for a while, to nowhere: most read no answer before they have sent all, and a connection that
 * is closed earlier would be an error of the network to them.
 */
function untilSent(req: IncomingMessage, bytesMax: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, REFUSED_BODY_MS)
    const done = (): void => {
      clearTimeout(timer)
      resolve()
    }
    if (req.complete || req.destroyed) return done()
    let bytes = 0
    req.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > bytesMax * 2) done()
    })
    req.once('end', done)
    req.once('error', done)
    req.once('close', done)
  })
}

/** A closed connection is told of within the same turn of the event loop or the next. */
const CUT_OFF_MS = 1_000
const REFUSED_BODY_MS = 10_000
const EMPTY = new Uint8Array(0)

function send(res: ServerResponse, reply: HttpReply, limits: StreamLimits | undefined): void {
  const { body } = reply
  if (typeof body === 'string' || body instanceof Uint8Array) {
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
    res.writeHead(reply.status, { ...reply.headers, 'content-length': length })
    res.end(body)
    return
  }
  res.writeHead(reply.status, reply.headers)
  body.open(new SocketStreamWriter(res, limits))
}
