/**
 * HTTP requests and replies as values. `network` owns the sockets.
 */
import type { BatonError, CancelSignal } from '../../base/index.ts'

/** A request before its body is read. */
export interface HttpHead {
  readonly method: string
  /** Path without query. */
  readonly path: string
  readonly query: string
  /** Names in lower case; repeated headers are joined with ', '. */
  readonly headers: Readonly<Record<string, string>>
  /** Aborted when the client has disconnected. */
  readonly signal: CancelSignal
  /** The address of the client; undefined when there is no connection. */
  readonly remoteAddress?: string
}

export interface HttpRequest extends HttpHead {
  readonly body: Uint8Array
}

/** A request whose head was processed: what to do with its body. */
export interface OpenRequest {
  /** A reply that does not need the body, which is then not read. */
  readonly reply?: HttpReply
  /** Largest body; 0: the body is ignored. */
  readonly bodyBytesMax: number
  /**
   * Present when the body can be consumed while it arrives; `answer` accepts the complete body too. Throws the
   * error to refuse the request with.
   */
  readonly takeBody?: () => BodyTaker
  /** Never rejects. */
  answer(body: Uint8Array): Promise<HttpReply>
  /** The reply when the body cannot be read, for example because it is too long. */
  refuse(error: BatonError): HttpReply
}

/** Consumes a body in pieces. Exactly one of `end` and `abort` is called, unless `take` has rejected. */
export interface BodyTaker {
  /** The next piece is sent after the promise has resolved. Rejects with the error for the client. */
  take(piece: Uint8Array): Promise<void>
  /** The body is complete. */
  end(): Promise<HttpReply>
  /** The body ended early. */
  abort(): Promise<void>
}

export interface HttpReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | HttpStream
}

/**
 * A body that is written incrementally. The server calls `open` once, after the head; then the stream calls the
 * writer. When the client disconnects, the request's `signal` is aborted and writes are ignored.
 */
export interface HttpStream {
  open(writer: StreamWriter): void
}

export interface StreamWriter {
  /**
   * `ascii`: every character is below 0x80, so it can be written as latin1. A text of one character per byte
   * may set it too, if the whole stream does.
   */
  write(text: string, ascii: boolean): void
  /**
   * Writes text of one character per byte at once, instead of collecting it with other writes of the same turn.
   */
  writeNow?(text: string): void
  end(): void
  /** Absent: the source cannot be slowed down. */
  readonly flow?: WriterFlow
}

/** Flow control for a stream of another server's bytes. */
export interface WriterFlow {
  /** True when so much data waits for the client that no more should be fetched now. */
  readonly isFull: boolean
  /** `listener` is called once, when the waiting data was sent; not when the client disconnects. */
  whenRead(listener: () => void): void
  /** Closes the connection in the middle of the body, so that the client notices that it is incomplete. */
  abort(): void
}
