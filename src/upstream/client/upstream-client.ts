/**
 * An HTTP/1.1 client for one upstream server: keep-alive connections, deadlines, a limit of concurrent calls, a
 * circuit breaker, and one retry when a connection ended before the first byte of an answer.
 *
 * Every piece of an answer is passed to a callback; a stream needs no promise and no copy.
 */
import { BatonError, InFlightSet } from '../../base/index.ts'
import type { Clock, InFlight } from '../../base/index.ts'
import { Breaker } from './breaker.ts'
import type { BreakerOptions } from './breaker.ts'
import type { ResponseHead } from './response-parser.ts'
import { ConnectionWatch } from './connection-watch.ts'
import { UpstreamConnection } from './upstream-connection.ts'
import type { ConnectionDeadlines, ConnectionUser } from './upstream-connection.ts'
import type { UpstreamUrl } from './upstream-url.ts'

export interface UpstreamRequest {
  readonly method: string
  /** Starts with a slash; the upstream's base path is prepended. */
  readonly path: string
  /** Names as they are to be written. The client itself writes `Host`, `Connection` and `Content-Length`. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** False: the connection is closed after the answer, and the server is told so. */
  readonly reuse?: boolean
  /**
   * False: never sent twice, because it contains something that can be used only once. `kept`: sent again only when
   * a reused connection has ended, which is not a fault of the server; a failure on a new connection is for the
   * caller to retry elsewhere.
   */
  readonly retries?: boolean | 'kept'
  readonly deadlines?: Partial<ConnectionDeadlines>
}

export interface UpstreamSink {
  onHead(head: ResponseHead): void
  /** A view that is valid during the call only. */
  onBody(bytes: Uint8Array): void
  /**
   * Called instead of `onBody` if present: all data of one read, one character per byte. `isLast`: the end follows
   * at once.
   */
  onText?(text: string, isLast: boolean): void
  onEnd(): void
  /** Terminal, instead of `onEnd`. */
  onError(error: BatonError): void
}

export interface UpstreamCall {
  /** The whole request was passed to the system; nobody reads its body any more unless the call is repeated. */
  readonly isSent: boolean
  /**
   * Closes the connection, which tells engines that the reader has left. Idempotent; nothing is reported afterwards.
   */
  abort(): void
  /** Data stays in the socket until `resume`. */
  pause(): void
  resume(): void
}

export interface UpstreamClientOptions {
  readonly url: UpstreamUrl
  readonly clock: Clock
  /** Sent with every request, for example an API key. */
  readonly headers?: Readonly<Record<string, string>>
  readonly deadlines?: Partial<ConnectionDeadlines>
  /** Most concurrent calls; further ones are refused. */
  readonly callsMax?: number
  readonly breaker?: BreakerOptions
}

export interface UpstreamCounters {
  readonly calls: number
  readonly inFlight: number
  readonly failures: number
  /** Calls that were sent again because the connection ended before the first byte. */
  readonly retries: number
  readonly refused: number
}

/** llama-server and uvicorn close idle connections after 5 s. */
const IDLE_CONNECTION_MS = 4000
const IDLE_CONNECTIONS_MAX = 64
const DEFAULT_DEADLINES: ConnectionDeadlines = Object.freeze({
  connectMs: 5_000,
  headMs: 300_000,
  idleMs: 120_000,
  unconfirmedMs: 15_000,
})
const DEFAULT_CALLS_MAX = 1024

export class UpstreamClient {
  readonly url: UpstreamUrl
  readonly breaker: Breaker
  readonly #options: UpstreamClientOptions
  readonly #deadlines: ConnectionDeadlines
  readonly #idle: UpstreamConnection[] = []
  readonly #watch: ConnectionWatch
  readonly #calls = new InFlightSet<Call>()
  #isClosed = false
  #heard = 0
  #runs = 0
  #started = 0
  #failures = 0
  #retries = 0
  #refused = 0

  constructor(options: UpstreamClientOptions) {
    this.url = options.url
    this.#options = options
    this.#deadlines = { ...DEFAULT_DEADLINES, ...options.deadlines }
    this.#watch = new ConnectionWatch(this.#deadlines)
    this.breaker = new Breaker(options.clock, options.breaker)
  }

  get counters(): UpstreamCounters {
    return {
      calls: this.#started,
      inFlight: this.#calls.size,
      failures: this.#failures,
      retries: this.#retries,
      refused: this.#refused,
    }
  }

  /**
   * Increases with every piece of an answer to a request with a body (generation); questions about the server have
   * none.
   */
  get heard(): number {
    return this.#heard
  }

  /** Requests with a body whose answer has not ended. */
  get runs(): number {
    return this.#runs
  }

  /** Never throws: errors go to the sink, possibly before this call returns. */
  send(request: UpstreamRequest, sink: UpstreamSink): UpstreamCall {
    const refusal = this.#refusal()
    if (refusal !== null) {
      this.#refused += 1
      sink.onError(refusal)
      return NO_CALL
    }
    let head: string
    try {
      head = this.#headOf(request)
    } catch (thrown) {
      this.breaker.gaveUp()
      sink.onError(BatonError.from(thrown))
      return NO_CALL
    }
    this.#started += 1
    const call = new Call(this, { request, head }, sink)
    this.#calls.add(call)
    if (call.isRun) this.#runs += 1
    this.#dispatch(call, this.#idle.pop())
    return call
  }

  /** For its calls only. */
  answered({ status }: ResponseHead, isRun: boolean): void {
    // A gateway's report that its server is unavailable; every other answer counts as an answer.
    const isAway = status === 502 || status === 503 || status === 504
    if (!isAway) this.breaker.succeeded()
    else if (isRun) this.#failed()
    // A server that loads its model gives this status to a question, and others give it for unknown routes.
    else this.breaker.gaveUp()
  }

  /** For its calls only. */
  heardPiece(): void {
    this.#heard += 1
  }

  /** For its calls only. */
  ended(call: Call, connection: UpstreamConnection, isReusable: boolean): void {
    this.#forget(call)
    if (isReusable && call.sent.request.reuse !== false && !this.#isClosed) this.#park(connection)
    else connection.destroy()
  }

  /** For its calls only. */
  aborted(call: Call): void {
    this.#forget(call)
    this.breaker.gaveUp()
  }

  /** Ends every call with `transport.disconnected`; idempotent. */
  close(): void {
    this.#isClosed = true
    this.#watch.close()
    for (const connection of this.#idle.splice(0)) connection.destroy()
    for (const call of this.#calls.values()) {
      this.#forget(call)
      call.fail(
        new BatonError('transport.disconnected', 'the connection to the upstream was closed'),
      )
    }
  }

  #refusal(): BatonError | null {
    const callsMax = this.#options.callsMax ?? DEFAULT_CALLS_MAX
    if (this.#isClosed) return new BatonError('backend.engine_shutdown', 'the upstream was closed')
    if (this.#calls.size >= callsMax) {
      return new BatonError(
        'capacity.worker_overloaded',
        `too many requests are in flight at the upstream: at most ${callsMax} are allowed`,
        { data: { limit: callsMax } },
      )
    }
    if (this.breaker.mayTry()) return null
    return new BatonError(
      'transport.cannot_connect',
      'the upstream has failed repeatedly and is not asked for a while',
      {
        data: { stage: 'upstream' },
      },
    )
  }

  #dispatch(call: Call, kept: UpstreamConnection | undefined): void {
    const { request, head } = call.sent
    const deadlines =
      request.deadlines === undefined
        ? this.#deadlines
        : { ...this.#deadlines, ...request.deadlines }
    const connection = kept ?? new UpstreamConnection(this.url, deadlines)
    if (kept === undefined) this.#watch.add(connection)
    call.connection = connection
    const hasBody = request.method !== 'HEAD'
    connection.send(call, head, request.body, { hasBody, deadlines })
  }

  #headOf(request: UpstreamRequest): string {
    const { url } = this
    const { method, path, body, headers, reuse } = request
    let head = `${method} ${url.basePath}${path} HTTP/1.1\r\nHost: ${url.hostHeader}\r\n`
    if (url.authorization !== undefined) head += `Authorization: ${url.authorization}\r\n`
    const own = this.#options.headers
    for (const name in own) head += headerLine(name, own[name] as string)
    for (const name in headers) head += headerLine(name, headers[name] as string)
    if (body !== undefined) {
      const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length
      head += `Content-Length: ${length}\r\n`
    } else if (method !== 'GET' && method !== 'HEAD') head += 'Content-Length: 0\r\n'
    return `${head}Connection: ${reuse === false ? 'close' : 'keep-alive'}\r\n\r\n`
  }

  /** For its calls only. */
  lost(call: Call, error: BatonError, hasBytes: boolean): void {
    const isCutOff = error.code === 'transport.disconnected' && !hasBytes
    if (isCutOff && !this.#isClosed && mayRepeat(call)) {
      call.wasRetried = true
      this.#retries += 1
      // Not on another idle connection: all of them may have ended together with the first one.
      this.#dispatch(call, undefined)
      return
    }
    this.#forget(call)
    this.#failed()
    call.fail(error)
  }

  #forget(call: Call): void {
    this.#calls.delete(call)
    if (call.isRun) this.#runs -= 1
  }

  #failed(): void {
    this.#failures += 1
    this.breaker.failed()
  }

  #park(connection: UpstreamConnection): void {
    if (this.#idle.length >= IDLE_CONNECTIONS_MAX) {
      connection.destroy()
      return
    }
    this.#idle.push(connection)
    connection.park(IDLE_CONNECTION_MS, () => {
      const at = this.#idle.indexOf(connection)
      if (at >= 0) this.#idle.splice(at, 1)
    })
  }
}

function mayRepeat({ connection, sent, wasRetried }: Call): boolean {
  const { retries } = sent.request
  if (retries === false || wasRetried) return false
  return retries !== 'kept' || connection?.wasUsed === true
}

interface SentRequest {
  readonly request: UpstreamRequest
  /** Request line and headers as they are written. */
  readonly head: string
}

const NO_CALL: UpstreamCall = {
  isSent: false,
  abort: () => undefined,
  pause: () => undefined,
  resume: () => undefined,
}

class Call implements UpstreamCall, ConnectionUser, InFlight {
  place = -1
  connection: UpstreamConnection | null = null
  wasRetried = false
  readonly sent: SentRequest
  readonly #client: UpstreamClient
  readonly #sink: UpstreamSink
  readonly #takesText: boolean
  readonly isRun: boolean
  /** Text of the current read. */
  #text = ''
  #hasEnded = false

  constructor(client: UpstreamClient, sent: SentRequest, sink: UpstreamSink) {
    this.#client = client
    this.sent = sent
    this.#sink = sink
    this.#takesText = sink.onText !== undefined
    this.isRun = sent.request.body !== undefined
  }

  get isSent(): boolean {
    return this.connection?.isSent === true
  }

  abort(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.connection?.destroy()
    this.#client.aborted(this)
  }

  pause(): void {
    if (!this.#hasEnded) this.connection?.pause()
  }

  resume(): void {
    if (!this.#hasEnded) this.connection?.resume()
  }

  /** Ends the call; its connection is closed if it is still open. */
  fail(error: BatonError): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.connection?.destroy()
    this.#sink.onError(error)
  }

  onHead(head: ResponseHead): void {
    this.#client.answered(head, this.isRun)
    if (!this.#hasEnded) this.#sink.onHead(head)
  }

  onBody(bytes: Buffer, start: number, end: number): void {
    if (this.#hasEnded) return
    if (this.isRun) this.#client.heardPiece()
    if (this.#takesText) this.#text += bytes.toString('latin1', start, end)
    else this.#sink.onBody(bytes.subarray(start, end))
  }

  onRead(): void {
    if (this.#text !== '') this.#tellText(false)
  }

  onEnd(isReusable: boolean): void {
    if (this.#text !== '') this.#tellText(true)
    if (this.#hasEnded) return
    this.#hasEnded = true
    if (this.connection !== null) this.#client.ended(this, this.connection, isReusable)
    this.#sink.onEnd()
  }

  onLost(error: BatonError, hasBytes: boolean): void {
    if (this.#text !== '') this.#tellText(false)
    if (!this.#hasEnded) this.#client.lost(this, error, hasBytes)
  }

  #tellText(isLast: boolean): void {
    const text = this.#text
    this.#text = ''
    if (!this.#hasEnded) this.#sink.onText?.(text, isLast)
  }
}

/** Refuses line breaks in a value, which would start another header or another request. */
function headerLine(name: string, value: string): string {
  if (BREAKING.test(value) || NOT_IN_NAMES.test(name)) {
    throw new BatonError('request.invalid_argument', 'a header value is invalid', {
      data: { name },
    })
  }
  return `${name}: ${value}\r\n`
}

const BREAKING = /[\r\n\0]/
const NOT_IN_NAMES = /[^!#$%&'*+.^_`|~0-9a-z-]/i
