/**
 * The last step of a token: text onto a client's socket.
 *
 * Everything written to one stream within one turn of the event loop leaves in one `write`, with chunk framing made
 * by hand on the response's socket: Node's own `res.write` costs a third more per event. When the loop is busy, more
 * tokens meet in one turn and share a write, so that throughput grows instead of latency.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import type { StreamWriter, WriterFlow } from '../../frontend/index.ts'
import type { SentReply, UnsentBytes } from './unsent-bytes.ts'

/** The head of an HTTP chunk by its length: most events are short, and `toString(16)` is a call into the runtime. */
const CHUNK_HEADS = Array.from({ length: 1024 }, (_, length) => `${length.toString(16)}\r\n`)

function chunkHead(bytes: number): string {
  return CHUNK_HEADS[bytes] ?? `${bytes.toString(16)}\r\n`
}

function writeChunk(socket: Socket, text: string, ascii: boolean): boolean {
  if (ascii) return socket.write(`${chunkHead(text.length)}${text}\r\n`, 'latin1')
  return socket.write(`${chunkHead(Buffer.byteLength(text))}${text}\r\n`, 'utf8')
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

/** More than this waits in the socket: whoever can be held back is held back. */
const FULL_BYTES = 256 * 1024

/** A response of HTTP/2 does not tell whether it needs a drain; its stream does. */
function http2StreamOf(res: ServerResponse): Writable | undefined {
  return 'stream' in res ? (res.stream as Writable) : undefined
}

export class SocketStreamWriter implements StreamWriter, WriterFlow {
  readonly #reply: SentReply
  readonly #res: ServerResponse
  readonly #unsent: UnsentBytes
  /** Known once the head has been sent: from then on nothing of the response is needed but its end. */
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
    // It is told once: `once` would only make two more objects of each stream.
    res.on('close', () => {
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
    // What is written within a turn leaves at its end; before that there is nothing to drain.
    setImmediate(() => {
      if (this.#res.destroyed) return
      const target = this.#socket ?? http2StreamOf(this.#res) ?? this.#res
      if (target.writableNeedDrain) target.once('drain', listener)
      else listener()
    })
  }

  abort(): void {
    this.#res.destroy()
  }

  /** Called by the turn's flush only. */
  flush(): void {
    this.#queued = false
    const isLast = this.#ended && !this.#res.destroyed
    if (!isLast) {
      if (this.#pending !== '') this.#send()
      return
    }
    // The last bytes and the end of the body leave in one write.
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

  /** False: more waits in the socket than it likes; most clients read, and then the response need not be looked at. */
  #hand(text: string, ascii: boolean): boolean {
    const socket = (this.#socket ??= this.#framedSocket())
    if (socket === null) {
      this.#headSent = true
      return this.#res.write(text, ascii ? 'latin1' : 'utf8')
    }
    if (!this.#headSent) return this.#handFirst(socket, text, ascii)
    return writeChunk(socket, text, ascii)
  }

  /** With the head in one segment. */
  #handFirst(socket: Socket, text: string, ascii: boolean): boolean {
    this.#headSent = true
    socket.cork()
    this.#res.flushHeaders()
    const isTaken = writeChunk(socket, text, ascii)
    socket.uncork()
    return isTaken
  }

  /**
   * Null: the text goes through the response, where the framing is not ours to make, or where others of a pipeline have the
   * socket.
   */
  #framedSocket(): Socket | null {
    return this.#res.chunkedEncoding ? this.#res.socket : null
  }
}
