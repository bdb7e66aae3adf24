/**
 * The text of a stream on its way to the socket. Text written before the socket is open is buffered; text
 * written after the end or after the client disconnected is dropped.
 */
import type { HttpStream, StreamWriter } from '../http/http-exchange.ts'

/** Reverse proxies that buffer replies would collect the events of a stream. */
export const UNBUFFERED = { 'x-accel-buffering': 'no' }

export const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  ...UNBUFFERED,
}

export class EventStream implements HttpStream {
  #writer: StreamWriter | null = null
  #waiting = ''
  #state: 'open' | 'ended' | 'abandoned' = 'open'

  open(writer: StreamWriter): void {
    if (this.#state === 'abandoned') return
    this.#writer = writer
    if (this.#waiting !== '') writer.write(this.#waiting, true)
    this.#waiting = ''
    if (this.#state === 'ended') writer.end()
  }

  /** `text` must be ASCII, as the texts of room `api` are. */
  write(text: string): void {
    if (this.#writer === null) {
      if (this.#state === 'open') this.#waiting += text
    } else if (this.#state === 'open') this.#writer.write(text, true)
  }

  end(): void {
    if (this.#state !== 'open') return
    this.#state = 'ended'
    this.#writer?.end()
  }

  /** The client has disconnected. */
  abandon(): void {
    if (this.#state !== 'open') return
    this.#state = 'abandoned'
    this.#waiting = ''
  }
}
