/**
 * Server-sent events of an engine: bytes in any pieces to the text behind `data:`.
 *
 * Comment lines, other fields and empty events are left out. An event is complete with its empty line; what is left at
 * the end of the body counts as well, as some servers forget the last one.
 */
import { BatonError } from '../../base/index.ts'

const EVENT_BYTES_MAX = 16 * 2 ** 20
const LF = 10

export class SseReader {
  readonly #onData: (data: string) => void
  #pending: Buffer = Buffer.alloc(0)
  #data: string | null = null
  #isFirstLine = true

  constructor(onData: (data: string) => void) {
    this.#onData = onData
  }

  /** Throws `transport.protocol` when a line has no end. */
  push(view: Uint8Array): void {
    const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength)
    let from = 0
    for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, from)) {
      const piece = bytes.subarray(from, at)
      from = at + 1
      if (this.#pending.length === 0) this.#line(piece.toString('utf8'))
      else {
        const whole = Buffer.concat([this.#pending, piece])
        this.#pending = Buffer.alloc(0)
        this.#line(whole.toString('utf8'))
      }
    }
    if (from === bytes.length) return
    // `Buffer.from` and `concat` copy: the view is not ours to keep.
    const rest = bytes.subarray(from)
    this.#pending =
      this.#pending.length === 0 ? Buffer.from(rest) : Buffer.concat([this.#pending, rest])
    if (this.#pending.length > EVENT_BYTES_MAX) {
      throw new BatonError('transport.protocol', 'an event of the upstream is too long')
    }
  }

  end(): void {
    if (this.#pending.length > 0) {
      const rest = this.#pending.toString('utf8')
      this.#pending = Buffer.alloc(0)
      this.#line(rest)
    }
    this.#flush()
  }

  #line(written: string): void {
    const ended = written.endsWith('\r') ? written.slice(0, -1) : written
    // A byte order mark is none of the text.
    const line = this.#isFirstLine && ended.startsWith('\ufeff') ? ended.slice(1) : ended
    this.#isFirstLine = false
    if (line === '') {
      this.#flush()
      return
    }
    if (!line.startsWith('data:')) return
    const data = line.startsWith('data: ') ? line.slice(6) : line.slice(5)
    this.#data = this.#data === null ? data : `${this.#data}\n${data}`
  }

  #flush(): void {
    const data = this.#data
    this.#data = null
    if (data !== null && data !== '') this.#onData(data)
  }
}
