/**
 * The last step of a token: text onto a client's socket.
 *
 * Everything written to one stream within one turn of the event loop leaves in one `write`, with chunk framing made
 * by hand on the response's socket: Node's own `res.write` costs a third more per event. When the loop is busy, more
 * tokens meet in one turn and share a write, so that throughput grows instead of latency.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { StreamWriter } from '../frontend/index.ts'

export interface StreamLimits {
  /** Bytes that may wait for a client that does not read; one more and the connection is closed. */
  readonly bufferedBytesMax: number
}

const DEFAULT_LIMITS: StreamLimits = { bufferedBytesMax: 4 * 1024 * 1024 }

/** The head of an HTTP chunk by its length: most events are short, and `toString(16)` is a call into the runtime. */
const CHUNK_HEADS = Array.from({ length: 1024 }, (_, length) => `${length.toString(16)}\r\n`)

function chunkHead(bytes: number): string {
  return CHUNK_HEADS[bytes] ?? `${bytes.toString(16)}\r\n`
}

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
  readonly #bufferedBytesMax: number
  /** Known once the head has been sent: from then on nothing of the response is needed but its end. */
  #socket: Socket | null = null
  #pending = ''
  #ascii = true
  #queued = false
  #ended = false
  #headSent = false

  constructor(res: ServerResponse, limits: StreamLimits = DEFAULT_LIMITS) {
    this.#res = res
    this.#bufferedBytesMax = limits.bufferedBytesMax
    res.once('close', () => {
      this.#ended = true
      this.#pending = ''
    })
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
    if (this.#pending !== '') this.#send()
    if (this.#ended && !this.#res.destroyed) this.#res.end()
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
    const socket = (this.#socket ??= this.#framedSocket())
    if (socket === null) {
      this.#headSent = true
      this.#res.write(text, ascii ? 'latin1' : 'utf8')
    } else if (ascii) socket.write(`${chunkHead(text.length)}${text}\r\n`, 'latin1')
    else socket.write(`${chunkHead(Buffer.byteLength(text))}${text}\r\n`, 'utf8')
    if ((socket ?? this.#res).writableLength > this.#bufferedBytesMax) this.#res.destroy()
  }

  /**
   * Null: the text goes through the response. The first does, with the head in one segment; and all do where the
   * framing is not ours to make, or where others of a pipeline have the socket.
   */
  #framedSocket(): Socket | null {
    return this.#headSent && this.#res.chunkedEncoding ? this.#res.socket : null
  }
}
