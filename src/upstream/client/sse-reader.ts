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
  /** Of a line without an end yet; put together once. */
  #pending: Buffer[] = []
  #pendingBytes = 0
  #data: string | null = null
  #isFirstLine = true

  constructor(onData: (data: string) => void) {
    this.#onData = onData
  }

  /** Throws `transport.protocol` when a line, or an event, has no end. */
  push(view: Uint8Array): void {
    const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength)
    let from = 0
    for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, from)) {
      const piece = bytes.subarray(from, at)
      from = at + 1
      if (this.#pendingBytes === 0) this.#line(piece.toString('utf8'))
      else {
        this.#pending.push(piece)
        this.#line(this.#takePending())
      }
    }
    if (from === bytes.length) return
    // A copy: the view is not ours to keep.
    const rest = Buffer.from(bytes.subarray(from))
    this.#pending.push(rest)
    this.#pendingBytes += rest.length
    if (this.#pendingBytes > EVENT_BYTES_MAX) throw tooLong()
  }

  #takePending(): string {
    const whole = Buffer.concat(this.#pending).toString('utf8')
    this.#pending = []
    this.#pendingBytes = 0
    return whole
  }

  end(): void {
    if (this.#pendingBytes > 0) this.#line(this.#takePending())
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
    if (this.#data.length > EVENT_BYTES_MAX) throw tooLong()
  }

  #flush(): void {
    const data = this.#data
    this.#data = null
    if (data !== null && data !== '') this.#onData(data)
  }
}

function tooLong(): BatonError {
  return new BatonError('transport.protocol', 'an event of the upstream is too long')
}
