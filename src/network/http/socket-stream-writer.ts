/**
 * The last step of a token: text to a client's socket.
 *
 * All text written to one stream in one turn of the event loop is sent with one `write`, with the chunk framing made
 * here on the response's socket, because Node's `res.write` costs a third more per event. When the loop is busy,
 * more tokens fall into one turn and share a write, so that throughput grows instead of latency.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { StreamWriter, WriterFlow } from '../../frontend/index.ts'
import type { SentReply } from './cut-reply.ts'
import { breakOff, http2StreamOf } from './http-listener.ts'
import type { UnsentBytes } from './unsent-bytes.ts'

/** The head of an HTTP chunk by its length: most events are short, and `toString(16)` calls into the runtime. */
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

/** When more than this waits in the socket, a source with flow control is paused. */
const FULL_BYTES = 256 * 1024

export class SocketStreamWriter implements StreamWriter, WriterFlow {
  /** All that was written, in the unit of `writableLength`, which is characters for text. */
  written = 0
  readonly #reply: SentReply
  readonly #res: ServerResponse
  readonly #unsent: UnsentBytes
  /** Set after the head was sent; from then on the response object is needed only for its end. */
  #socket: Socket | null = null
  #pending = ''
  #ascii = true
  #queued = false
  #ended = false
  #headSent = false

  constructor(reply: SentReply, unsent: UnsentBytes) {
    const { res } = reply
    this.#reply = reply
    this.#res = res
    this.#unsent = unsent
  }

  /** The connection is closed, or the reply has been sent. */
  closed(): void {
    this.#ended = true
    this.#pending = ''
  }

  write(text: string, ascii: boolean): void {
    if (this.#ended) return
    this.#pending += text
    if (!ascii) this.#ascii = false
    this.#schedule()
  }

  writeNow(text: string): void {
    if (this.#ended) return
    this.#pending += text
    this.#send()
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#schedule()
  }

  get flow(): WriterFlow {
    return this
  }

  get isFull(): boolean {
    const waiting = this.#socket?.writableLength ?? this.#res.writableLength
    return waiting + this.#pending.length > FULL_BYTES
  }

  whenRead(listener: () => void): void {
    // Text written within a turn is sent at its end; before that nothing can drain.
    setImmediate(() => {
      if (this.#res.destroyed) return
      const target = this.#socket ?? http2StreamOf(this.#res) ?? this.#res
      if (target.writableNeedDrain) target.once('drain', listener)
      else listener()
    })
  }

  abort(): void {
    breakOff(this.#res)
  }

  /** Called only by the flush at the end of a turn. */
  flush(): void {
    this.#queued = false
    const isLast = this.#ended && !this.#res.destroyed
    if (!isLast) {
      if (this.#pending !== '') this.#send()
      return
    }
    // The last bytes and the end of the body are sent in one write.
    const socket = http2StreamOf(this.#res) === undefined ? this.#res.socket : null
    socket?.cork()
    if (this.#pending !== '') this.#send()
    this.#res.end()
    socket?.uncork()
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
    if (!this.#hand(text, ascii)) this.#unsent.wrote(this.#reply, text.length)
  }

  /**
   * False: the socket's buffer is above its limit. Most clients read, and then the response object is not touched.
   */
  #hand(text: string, ascii: boolean): boolean {
    const socket = (this.#socket ??= this.#framedSocket())
    if (socket === null) {
      this.#headSent = true
      this.written += text.length
      return this.#res.write(text, ascii ? 'latin1' : 'utf8')
    }
    if (!this.#headSent) return this.#handFirst(socket, text, ascii)
    return this.#writeChunk(socket, text, ascii)
  }

  /** Writes the first text with the head in one segment. */
  #handFirst(socket: Socket, text: string, ascii: boolean): boolean {
    this.#headSent = true
    socket.cork()
    this.#res.flushHeaders()
    const isTaken = this.#writeChunk(socket, text, ascii)
    socket.uncork()
    return isTaken
  }

  #writeChunk(socket: Socket, text: string, ascii: boolean): boolean {
    const chunk = `${chunkHead(ascii ? text.length : Buffer.byteLength(text))}${text}\r\n`
    this.written += chunk.length
    return socket.write(chunk, ascii ? 'latin1' : 'utf8')
  }

  /**
   * Null: the text has to go through the response object, because the chunk framing cannot be made here (HTTP/2) or
   * because other pipelined replies use the socket.
   */
  #framedSocket(): Socket | null {
    return this.#res.chunkedEncoding ? this.#res.socket : null
  }
}
