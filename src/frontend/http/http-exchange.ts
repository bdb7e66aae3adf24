/**
 * HTTP as values: what comes in, what goes out. `host` owns the sockets.
 */
import type { BatonError, CancelSignal } from '../../base/index.ts'

/** A request before its body is read. */
export interface HttpHead {
  readonly method: string
  /** Path without query. */
  readonly path: string
  readonly query: string
  /** Names in lower case; repeated headers joined by ', '. */
  readonly headers: Readonly<Record<string, string>>
  /** Aborted when the client has gone. */
  readonly signal: CancelSignal
  /** Where the connection comes from; undefined when there is none. */
  readonly remoteAddress?: string
}

export interface HttpRequest extends HttpHead {
  readonly body: Uint8Array
}

/** A request whose head has been looked at: what is to become of its body. */
export interface OpenRequest {
  /** The reply that does not need the body; it is not read then. */
  readonly reply?: HttpReply
  /** 0: there is none, or it is not looked at. */
  readonly bodyBytesMax: number
  /** The body is to be taken as it comes, if that can be; `answer` takes it whole as well. Throws what is to be refused with. */
  readonly takeBody?: () => BodyTaker
  /** Never rejects. */
  answer(body: Uint8Array): Promise<HttpReply>
  /** The reply when the body cannot be had, for example because it is too long. */
  refuse(error: BatonError): HttpReply
}

/** Who takes a body piece by piece. One of `end` and `abort` is called, unless `take` has rejected. */
export interface BodyTaker {
  /** The next piece waits for it. Rejects with what the client is told. */
  take(piece: Uint8Array): Promise<void>
  /** All of it has come. */
  end(): Promise<HttpReply>
  /** No more comes. */
  abort(): Promise<void>
}

export interface HttpReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | HttpStream
}

/**
 * A body that is written as it comes. `host` calls `open` once, after the head; the stream then calls the writer.
 * When the client leaves, `signal` of the request is aborted and writes go nowhere.
 */
export interface HttpStream {
  open(writer: StreamWriter): void
}

export interface StreamWriter {
  /**
   * `ascii` promises that every character is below 0x80, so that it is written as latin1; a text of one character per byte
   * may say so, too, if all of the stream does.
   */
  write(text: string, ascii: boolean): void
  /** Text of one character per byte, not kept for what else this turn may bring. */
  writeNow?(text: string): void
  end(): void
  /** Absent: whoever writes cannot be held back. */
  readonly flow?: WriterFlow
}

/** What a stream of another server's bytes wants to know of its reader. */
export interface WriterFlow {
  /** So much waits for the client that no more should be fetched now. */
  readonly isFull: boolean
  /** Called once, when what waits has gone. Not called when the client leaves. */
  whenRead(listener: () => void): void
  /** Closes the connection in the middle of the body, so that the part is not taken for the whole. */
  abort(): void
}
