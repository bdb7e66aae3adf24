/**
 * Parses the server-sent events of an engine: from bytes in any pieces to the text after `data:`.
 *
 * Lines end with LF, CR LF or CR. Comment lines, other fields and empty events are skipped. An event is complete
 * with its empty line; an incomplete one at the end of the body counts too, because some servers omit the last empty
 * line.
 */
import { BatonError } from '../../base/index.ts'

const EVENT_BYTES_MAX = 16 * 2 ** 20
const LF = 10
const CR = 13

export class SseReader {
  readonly #onData: (data: string) => void
  /** Parts of an incomplete line; joined once. */
  #pending: Buffer[] = []
  #pendingBytes = 0
  #data: string | null = null
  #isFirstLine = true
  /** The server ends lines with CR only, so a CR at the end of a piece ends a line too. */
  #endsWithCr = false

  constructor(onData: (data: string) => void) {
    this.#onData = onData
  }

  /** Throws `transport.protocol` when a line or an event is too long. */
  push(view: Uint8Array): void {
    const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength)
    let from = 0
    for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, from)) {
      const piece = bytes.subarray(from, at)
      from = at + 1
      this.#lines(piece)
    }
    if (from === bytes.length) return
    from = this.#bareLines(bytes, from)
    // A copy, because the view is valid only during the call.
    const rest = Buffer.from(bytes.subarray(from))
    this.#pending.push(rest)
    this.#pendingBytes += rest.length
    if (this.#pendingBytes > EVENT_BYTES_MAX) throw tooLong()
  }

  /** Lines that end with CR in a piece without LF. Returns the position of the rest. */
  #bareLines(bytes: Buffer, from: number): number {
    const last = bytes.lastIndexOf(CR)
    if (last < from) return from
    // The last byte may be the first half of CR LF.
    const isHalf = last === bytes.length - 1 && !this.#endsWithCr
    const end = isHalf ? bytes.lastIndexOf(CR, last - 1) : last
    if (end < from) return from
    this.#endsWithCr = true
    const isWhole = last === bytes.length - 1
    this.#lines(bytes.subarray(from, isWhole ? last + 1 : end + 1))
    return isWhole ? bytes.length : end + 1
  }

  /** `piece`: without its LF; it may contain lines that end with CR. */
  #lines(piece: Buffer): void {
    let text: string
    if (this.#pendingBytes === 0) text = piece.toString('utf8')
    else {
      this.#pending.push(piece)
      text = this.#takePending()
    }
    const ended = text.endsWith('\r') ? text.slice(0, -1) : text
    if (!ended.includes('\r')) this.#line(ended)
    else for (const line of ended.split('\r')) this.#line(line)
  }

  #takePending(): string {
    const whole = Buffer.concat(this.#pending).toString('utf8')
    this.#pending = []
    this.#pendingBytes = 0
    return whole
  }

  end(): void {
    if (this.#pendingBytes > 0) this.#lines(Buffer.alloc(0))
    this.#flush()
  }

  #line(ended: string): void {
    // A byte order mark is skipped.
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
