/**
 * The last step of a token: text onto a client's socket.
 *
 * Everything written to one stream within one turn of the event loop leaves in one `write`, with chunk framing made
 * by hand on the response's socket: Node's own `res.write` costs a third more per event. When the loop is busy, more
 * tokens meet in one turn and share a write, so that throughput grows instead of latency.
 */
import type { ServerResponse } from 'node:http'
import type { StreamWriter } from '../frontend/index.ts'

export interface StreamLimits {
  /** Bytes that may wait for a client that does not read; one more and the connection is closed. */
  readonly bufferedBytesMax: number
}

const DEFAULT_LIMITS: StreamLimits = { bufferedBytesMax: 4 * 1024 * 1024 }

/** Streams with text to write in this turn; one callback flushes them all. */
let dirty: SocketStreamWriter[] = []
let scheduled = false

function flushAll(): void {
  const streams = dirty
  dirty = []
  scheduled = false
  for (const stream of streams) stream.flush()
}

export class SocketStreamWriter implements StreamWriter {
  readonly #res: ServerResponse
  readonly #limits: StreamLimits
  #pending = ''
  #ascii = true
  #queued = false
  #ended = false
  #headSent = false

  constructor(res: ServerResponse, limits: StreamLimits = DEFAULT_LIMITS) {
    this.#res = res
    this.#limits = limits
  }

  write(text: string, ascii: boolean): void {
    if (this.#ended) return
    this.#pending += text
    if (!ascii) this.#ascii = false
    this.#schedule()
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#schedule()
  }

  /** Called by the turn's flush only. */
  flush(): void {
    this.#queued = false
    const res = this.#res
    if (res.destroyed) {
      this.#pending = ''
      return
    }
    if (this.#pending !== '') this.#send()
    if (this.#ended) res.end()
  }

  #schedule(): void {
    if (this.#queued) return
    this.#queued = true
    dirty.push(this)
    if (scheduled) return
    scheduled = true
    process.nextTick(flushAll)
  }

  #send(): void {
    const text = this.#pending
    const ascii = this.#ascii
    this.#pending = ''
    this.#ascii = true
    const res = this.#res
    const socket = res.socket
    if (!this.#headSent || socket === null || !res.chunkedEncoding) {
      // The first write goes with the head, in one segment.
      this.#headSent = true
      res.write(text, ascii ? 'latin1' : 'utf8')
    } else if (ascii) {
      socket.write(`${text.length.toString(16)}\r\n${text}\r\n`, 'latin1')
    } else {
      socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`, 'utf8')
    }
    if (socket !== null && socket.writableLength > this.#limits.bufferedBytesMax) res.destroy()
  }
}
