/**
 * HTTP as values: what comes in, what goes out. `host` owns the sockets.
 */
import type { CancelSignal } from '../base/index.ts'

export interface HttpRequest {
  readonly method: string
  /** Path without query. */
  readonly path: string
  readonly query: string
  /** Names in lower case; repeated headers joined by ', '. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Aborted when the client has gone. */
  readonly signal: CancelSignal
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
  /** `ascii` promises that every character is below 0x80, so that it is written as latin1. */
  write(text: string, ascii: boolean): void
  end(): void
}
