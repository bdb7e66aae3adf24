/**
 * One call to an upstream server: its request, and its answer from the first byte to its only end.
 *
 * Every piece of an answer is passed to a callback; a stream needs no promise and no copy. The connection that carries
 * it, and whether it is sent again, is decided by its owner.
 */
import type { BatonError, InFlight } from '../../base/index.ts'
import type { Lane } from './lane.ts'
import type { ResponseHead } from './response-parser.ts'
import type {
  ConnectionDeadlines,
  ConnectionUser,
  UpstreamConnection,
} from './upstream-connection.ts'

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
  /** Sent to the same process as the earlier calls of this lane, or not at all. */
  readonly lane?: Lane
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

interface SentRequest {
  readonly request: UpstreamRequest
  /** Request line and headers as they are written. */
  readonly head: string
}

/** What a call reports to the client that has sent it. */
export interface CallOwner {
  answered(head: ResponseHead, isRun: boolean): void
  /** A piece of an answer to a request with a body has arrived. */
  heardPiece(): void
  ended(call: Call, connection: UpstreamConnection, isReusable: boolean): void
  aborted(call: Call): void
  /** The connection has ended. `hasBytes`: a part of the answer had arrived. */
  lost(call: Call, error: BatonError, hasBytes: boolean): void
}

export class Call implements UpstreamCall, ConnectionUser, InFlight {
  place = -1
  connection: UpstreamConnection | null = null
  wasRetried = false
  readonly sent: SentRequest
  readonly #owner: CallOwner
  readonly #sink: UpstreamSink
  readonly #takesText: boolean
  readonly isRun: boolean
  /** Text of the current read. */
  #text = ''
  #hasEnded = false

  constructor(owner: CallOwner, sent: SentRequest, sink: UpstreamSink) {
    this.#owner = owner
    this.sent = sent
    this.#sink = sink
    this.#takesText = sink.onText !== undefined
    this.isRun = sent.request.body !== undefined
  }

  get isSent(): boolean {
    return this.connection?.isSent === true
  }

  /** Whether it may be sent again now that its connection has ended before the first byte of an answer. */
  get mayRepeat(): boolean {
    const { lane, retries } = this.sent.request
    if (retries === false || this.wasRetried || lane?.hasAnswered === true) return false
    return retries !== 'kept' || this.connection?.wasUsed === true
  }

  abort(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.connection?.destroy()
    this.#owner.aborted(this)
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
    this.#owner.answered(head, this.isRun)
    if (!this.#hasEnded) this.#sink.onHead(head)
  }

  onBody(bytes: Buffer, start: number, end: number): void {
    if (this.#hasEnded) return
    if (this.isRun) this.#owner.heardPiece()
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
    if (this.connection !== null) this.#owner.ended(this, this.connection, isReusable)
    this.#sink.onEnd()
  }

  onLost(error: BatonError, hasBytes: boolean): void {
    if (this.#text !== '') this.#tellText(false)
    if (!this.#hasEnded) this.#owner.lost(this, error, hasBytes)
  }

  #tellText(isLast: boolean): void {
    const text = this.#text
    this.#text = ''
    if (!this.#hasEnded) this.#sink.onText?.(text, isLast)
  }
}
