/**
 * Adapts node:http to HTTP requests and replies as values.
 *
 * Owns: the life of the server and of each request: its body and the limits of it, its single answer, the end of its
 * connection.
 * Does not own: the meaning of requests (room `frontend`).
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { BatonError } from '../../base/index.ts'
import type { BodyTaker, HttpHead, HttpReply, OpenRequest } from '../../frontend/index.ts'
import { AddressLimit } from './address-limit.ts'
import { answerBrokenRequests, answerConnect } from './broken-requests.ts'
import { clientOf } from './client.ts'
import type { Client } from './client.ts'
import { limitConnections } from './connection-limit.ts'
import { decodeContent } from './content-encoding.ts'
import type { SlowReader } from './cut-reply.ts'
import { listenError } from '../link/listen-on.ts'
import { HttpListener, isHttp2 } from './http-listener.ts'
import type { HttpTls } from './http-listener.ts'
import { headerFault } from './header-faults.ts'
import { reportClose } from './pipelined-replies.ts'
import type { SlowSenderLimits } from './slow-sender-limits.ts'
import { headOf, noHead } from './request-head.ts'
import { sendBeforeRest, sendReply } from './send-reply.ts'
import { inviteBody, readBody, untilSent } from './request-body.ts'
import { bodyTooLarge, takenBody } from './taken-body.ts'
import { StalledReaders } from './stalled-readers.ts'
import { DEFAULT_STREAM_LIMITS, UnsentBytes } from './unsent-bytes.ts'
import type { StreamLimits } from './unsent-bytes.ts'

export interface HttpServerOptions {
  readonly host: string
  readonly port: number
  /** Called when the head of a request has arrived; never throws. */
  readonly open: (head: HttpHead) => OpenRequest
  /** Called for an internal error while answering; the client gets the reply of `refuse`. */
  readonly onFault: (error: unknown) => void
  readonly streamLimits?: Partial<StreamLimits>
  /** Called when a client was disconnected because it did not read. */
  readonly onSlowReader?: (reader: SlowReader) => void
  /** True: other processes listen on the same port, and the kernel distributes connections (Node 24). */
  readonly sharesPort?: boolean
  /** Absent: plain HTTP. */
  readonly tls?: HttpTls
  readonly slowSenders?: SlowSenderLimits
  /**
   * Milliseconds that a client may continue to send a refused body, because many read the answer only afterwards.
   */
  readonly refusedBodyMs?: number
  /** Most connections of one address, except this machine; absent or 0: no limit. */
  readonly connectionsPerAddress?: number
  /** Called when an address has reached its limit; at most once a minute. */
  readonly onTooManyConnections?: (address: string) => void
  /** Most connections of all addresses; absent: no limit. */
  readonly connectionsMax?: number
  /** Called when a connection above `connectionsMax` was closed; at most once a minute. */
  readonly onFull?: () => void
}

/** The advice for a port that the user has chosen. */
export const TAKEN_PORT_REMEDY =
  'stop the process that listens there, or choose another port with --port'

/** The close event of a connection arrives in the same turn of the event loop or the next. */
const CUT_OFF_MS = 1_000
const REFUSED_BODY_MS = 10_000
const REFUSED_BODY_BYTES = 1024 * 1024

interface RefusedBody {
  /** The client was asked for its body, or did not wait for that. */
  readonly isInvited: boolean
  /** The connection may be used again. */
  readonly isKept: boolean
  readonly bodyBytesMax: number
}

export class HttpServer {
  readonly #listener: HttpListener
  readonly #options: HttpServerOptions
  readonly #refusedBodyMs: number
  readonly #unsent: UnsentBytes
  /** From the head of the request until the reply is sent or its connection closed. */
  readonly #active = new Set<Client>()
  readonly #stalled: StalledReaders
  #whenIdle: (() => void) | null = null
  #closing = false

  private constructor(options: HttpServerOptions) {
    this.#options = options
    this.#refusedBodyMs = options.refusedBodyMs ?? REFUSED_BODY_MS
    const onCut = (reader: SlowReader): void => options.onSlowReader?.(reader)
    this.#unsent = new UnsentBytes({ ...DEFAULT_STREAM_LIMITS, ...options.streamLimits }, onCut)
    this.#stalled = new StalledReaders(this.#active, onCut)
    const answer = (req: IncomingMessage, res: ServerResponse): void => {
      this.#answer(req, res).catch((error: unknown) => {
        options.onFault(error)
        res.destroy()
      })
    }
    this.#listener = new HttpListener(options.tls, answer, options.slowSenders)
    const { connectionsPerAddress = 0, onTooManyConnections = () => undefined } = options
    const limit = new AddressLimit(connectionsPerAddress, onTooManyConnections)
    this.#listener.server.on('connection', limit.admit)
    const { connectionsMax, onFull = () => undefined } = options
    if (connectionsMax !== undefined)
      limitConnections(this.#listener.server, connectionsMax, onFull)
    const refuse = (error: BatonError): HttpReply => options.open(noHead()).refuse(error)
    answerBrokenRequests(this.#listener.server, refuse)
    answerConnect(this.#listener.server, refuse)
    this.#listener.server.on('checkExpectation', (req: IncomingMessage, res: ServerResponse) => {
      closeAfter(req, res)
      const client = this.#begin(req, res)
      const error = new BatonError(
        'request.invalid_argument',
        'the header expect has no known value',
      )
      const reply = { ...options.open(headOf(req, client.gone)).refuse(error), status: 417 }
      sendReply(client, reply, this.#unsent)
    })
  }

  /** Resolves when the port is bound; throws `host.address_in_use` with advice. */
  static async listen(options: HttpServerOptions): Promise<HttpServer> {
    const server = new HttpServer(options)
    await new Promise<void>((resolve, reject) => {
      const listening = server.#listener.server
      listening.once('error', (error: NodeJS.ErrnoException) => {
        reject(listenError(error, options, TAKEN_PORT_REMEDY))
      })
      const { port, host, sharesPort = false } = options
      // The type definitions of Node 20 lack `reusePort`.
      const shared: Record<string, boolean> = sharesPort ? { reusePort: true, exclusive: true } : {}
      listening.listen({ port, host, ...shared }, resolve)
    })
    server.#stalled.watch()
    return server
  }

  get port(): number {
    return (this.#listener.server.address() as AddressInfo).port
  }

  /** Applies to new connections. Throws when the pair cannot be used; the previous one stays in use then. */
  setTls(tls: HttpTls): void {
    this.#listener.setTls(tls)
  }

  get requestsActive(): number {
    return this.#active.size
  }

  /**
   * Accepts no new connections, lets requests in flight end for at most `graceMs`, then closes the rest;
   * `beforeCutOff` may end them with an error event. Returns how many requests were cut off.
   */
  async close(graceMs: number, beforeCutOff?: () => void): Promise<number> {
    this.#closing = true
    const closed = new Promise<void>((resolve) => {
      this.#listener.server.close(() => resolve())
    })
    this.#listener.closeIdle()
    if (graceMs > 0) await this.#untilIdle(graceMs)
    const cutOff = this.#active.size
    if (cutOff > 0 && beforeCutOff !== undefined) {
      beforeCutOff()
      await this.#untilIdle(CUT_OFF_MS)
    }
    this.#listener.closeAll()
    await closed
    this.#stalled.stop()
    // Requests that were cut off are cancelled before the layers below them are closed.
    await this.#untilIdle(CUT_OFF_MS)
    return cutOff
  }

  async #untilIdle(limitMs: number): Promise<void> {
    if (this.#active.size === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limitMs)
      this.#whenIdle = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #begin(req: IncomingMessage, res: ServerResponse): Client {
    const client = clientOf(res)
    this.#active.add(client)
    // Called once in any case; `once` would only create two more objects per request.
    res.on('close', () => {
      this.#active.delete(client)
      client.writer?.closed()
      // An HTTP/2 stream that the client resets counts as finished although it was not ended.
      if (isHttp2(req) ? !res.writableEnded : !res.writableFinished) client.gone.abort()
      if (this.#active.size === 0) this.#whenIdle?.()
    })
    if (!isHttp2(req)) reportClose(res)
    return client
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const client = this.#begin(req, res)
    const { gone } = client
    if (this.#closing) closeAfter(req, res)
    const open = this.#options.open(headOf(req, gone))
    const fault = headerFault(req)
    if (fault !== null) {
      closeAfter(req, res)
      const error = new BatonError('request.invalid_argument', fault)
      return sendReply(client, open.refuse(error), this.#unsent)
    }
    const isInvited = inviteBody(open, req, res)
    // A compressed body is decoded as a whole.
    const isPlain = req.headers['content-encoding'] === undefined
    if (open.reply === undefined && open.takeBody !== undefined && isPlain) {
      return await this.#answerTaken(open, open.takeBody, req, client, isInvited)
    }
    const body = open.reply === undefined ? await readBody(req, open.bodyBytesMax) : null
    if (body === undefined) return
    if (body === null) {
      const reply = open.reply ?? open.refuse(bodyTooLarge(open.bodyBytesMax))
      const isKept = open.reply !== undefined
      return await this.#refuseBody(req, reply, client, { isInvited, isKept, ...open })
    }
    let reply: HttpReply
    try {
      reply =
        isPlain || body.length === 0
          ? await open.answer(body)
          : await answerDecoded(open, body, req)
    } catch (error) {
      this.#options.onFault(error)
      reply = open.refuse(
        new BatonError('runtime.internal', "internal error, see the server's log"),
      )
    }
    if (!res.destroyed) sendReply(client, reply, this.#unsent)
  }

  /** A body that is too large to be buffered is passed on in pieces. */
  async #answerTaken(
    open: OpenRequest,
    takeBody: () => BodyTaker,
    req: IncomingMessage,
    client: Client,
    isInvited: boolean,
  ): Promise<void> {
    const { res } = client
    try {
      const reply = await takenBody(req, takeBody, open.bodyBytesMax)
      if (reply !== null && !res.destroyed) sendReply(client, reply, this.#unsent)
    } catch (thrown) {
      const error = BatonError.from(thrown)
      const isKept = error.code !== 'request.payload_too_large'
      const reply = open.refuse(error)
      await this.#refuseBody(req, reply, client, { isInvited, isKept, ...open })
    }
  }

  /**
   * Answers a request without its body. The connection is kept, if it may be, for a client that soon sends the rest.
   * Otherwise the answer is sent at once, and the rest is read and dropped for a while before the connection ends: a
   * connection that is closed while the client sends loses the answer.
   */
  async #refuseBody(
    req: IncomingMessage,
    reply: HttpReply,
    client: Client,
    { isInvited, isKept, bodyBytesMax }: RefusedBody,
  ): Promise<void> {
    const { res } = client
    if (res.destroyed) return
    const bytesMax = 2 * Math.max(bodyBytesMax, REFUSED_BODY_BYTES)
    const isShort = Number(req.headers['content-length'] ?? 0) <= bytesMax
    const rest = isInvited ? untilSent(req, bytesMax, this.#refusedBodyMs) : null
    if (rest === null || isHttp2(req) || (isKept && isShort)) {
      if ((await rest) !== true || !isKept) closeAfter(req, res)
      if (!res.destroyed) sendReply(client, reply, this.#unsent)
      return
    }
    closeAfter(req, res)
    await sendBeforeRest(client, reply, this.#unsent, rest)
  }
}

async function answerDecoded(
  open: OpenRequest,
  body: Uint8Array,
  { headers }: IncomingMessage,
): Promise<HttpReply> {
  let plain: Uint8Array | null
  try {
    plain = await decodeContent(body, headers['content-encoding'] ?? '', open.bodyBytesMax)
  } catch (error) {
    return open.refuse(BatonError.from(error))
  }
  // The body that is passed on is not compressed any more.
  delete headers['content-encoding']
  if (plain === null) return open.refuse(bodyTooLarge(open.bodyBytesMax))
  return await open.answer(plain)
}

/** HTTP/2 has no such header, and its connection stays open for other requests. */
function closeAfter(req: IncomingMessage, res: ServerResponse): void {
  if (!isHttp2(req)) res.setHeader('connection', 'close')
}
