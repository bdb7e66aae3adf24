/**
 * Parses HTTP/1.1 responses from bytes in any pieces: a head, pieces of the body, an end.
 *
 * Owns: the framing (length, chunks, until the connection closes) and its limits. One parser reads one response;
 * further bytes on the connection are an error of the server, because nothing was requested.
 */
import { BatonError } from '../../base/index.ts'

export interface ResponseHead {
  readonly status: number
  /** Names in lower case; repeated headers are joined by a comma, as HTTP allows. */
  readonly headers: ReadonlyMap<string, string>
}

export interface ResponseEvents {
  onHead(head: ResponseHead): void
  /** Bytes of the body within the pushed buffer: copy what you keep. */
  onBody(bytes: Buffer, start: number, end: number): void
  /** Called once. `isReusable`: the connection may carry another request. */
  onEnd(isReusable: boolean): void
}

const HEAD_BYTES_MAX = 64 * 1024
const CHUNK_LINE_BYTES_MAX = 1024
const CHUNK_DIGITS_MAX = 8
const CR = 13
const LF = 10
const NOTHING = Buffer.alloc(0)

type State = 'head' | 'length' | 'chunk-line' | 'chunk' | 'chunk-end' | 'trailer' | 'close' | 'done'

export class ResponseParser {
  readonly #events: ResponseEvents
  #hasBody: boolean
  #state: State = 'head'
  /** Bytes of an incomplete head or line. */
  #pending: Buffer = NOTHING
  #remaining = 0
  #trailerBytes = 0
  #isKeptAlive = true
  #hasBytes = false

  /** `hasBody` is false for a HEAD request. */
  constructor(events: ResponseEvents, hasBody = true) {
    this.#events = events
    this.#hasBody = hasBody
  }

  /** Prepares for another response on the same connection. */
  restart(hasBody: boolean): void {
    this.#hasBody = hasBody
    this.#state = 'head'
    this.#pending = NOTHING
    this.#remaining = 0
    this.#trailerBytes = 0
    this.#isKeptAlive = true
    this.#hasBytes = false
  }

  /** True when any bytes have arrived. */
  get hasBytes(): boolean {
    return this.#hasBytes
  }

  get isDone(): boolean {
    return this.#state === 'done'
  }

  /** Throws `transport.protocol` for bytes that are not HTTP. */
  push(bytes: Buffer, length = bytes.length): void {
    if (length === 0 || this.#state === 'done') return
    this.#hasBytes = true
    let at = 0
    while (at < length && !this.isDone) at = this.#step(bytes, at, length)
    // Reported last, because another request may follow at once; bytes after the end do not belong to its answer.
    if (this.isDone) this.#events.onEnd(this.#isKeptAlive && at === length)
  }

  /** The connection was closed. Returns false when the response is incomplete. */
  close(): boolean {
    if (this.#state === 'close') {
      this.#state = 'done'
      this.#events.onEnd(false)
    }
    return this.#state === 'done'
  }

  #step(bytes: Buffer, at: number, length: number): number {
    switch (this.#state) {
      case 'head':
        return this.#readHead(bytes, at, length)
      case 'length':
      case 'chunk':
        return this.#readCounted(bytes, at, length)
      case 'chunk-line':
      case 'chunk-end':
      case 'trailer':
        return this.#readShortLine(bytes, at, length) ?? this.#readLine(bytes, at, length)
      case 'close':
        this.#events.onBody(bytes, at, length)
        return length
      case 'done':
        return length
    }
  }

  #readCounted(bytes: Buffer, at: number, length: number): number {
    const end = Math.min(length, at + this.#remaining)
    this.#remaining -= end - at
    this.#events.onBody(bytes, at, end)
    if (this.#remaining > 0) return end
    if (this.#state === 'chunk') this.#state = 'chunk-end'
    else if (this.#state === 'length') this.#state = 'done'
    return end
  }

  #readHead(bytes: Buffer, at: number, length: number): number {
    const before = this.#pending.length
    const rest = bytes.subarray(at, length)
    const all = before === 0 ? rest : Buffer.concat([this.#pending, rest])
    const end = endOfHead(all, Math.max(0, before - 3))
    if (end < 0) {
      if (all.length > HEAD_BYTES_MAX) throw malformed('its head is too long')
      this.#pending = Buffer.from(all)
      return length
    }
    this.#pending = NOTHING
    this.#begin(parseHead(all.toString('latin1', 0, end)))
    return at + (end - before)
  }

  #begin({ version, head }: ParsedHead): void {
    const { status, headers } = head
    if (status === 101) throw malformed('it switches to another protocol')
    // An interim response: the final one follows.
    if (status < 200) return
    const connection = headers.get('connection')?.toLowerCase() ?? ''
    this.#isKeptAlive =
      version === '1.1' ? !connection.includes('close') : connection.includes('keep-alive')
    this.#events.onHead(head)
    if (!this.#hasBody || status === 204 || status === 304) {
      this.#state = 'done'
      return
    }
    const coding = headers.get('transfer-encoding')?.toLowerCase()
    const length = headers.get('content-length')
    if (coding !== undefined && coding !== 'identity') {
      if (!/^(?:identity, *)?chunked$/.test(coding))
        throw malformed('its transfer coding is not supported')
      this.#state = 'chunk-line'
    } else if (length === undefined) this.#state = 'close'
    else {
      if (!/^\d{1,15}$/.test(length)) throw malformed('its content-length is not a number')
      this.#remaining = Number(length)
      if (this.#remaining === 0) this.#state = 'done'
      else this.#state = 'length'
    }
  }

  /**
   * Parses the lines between the chunks of a stream without making a string; null: the line is of another form or
   * incomplete.
   */
  #readShortLine(bytes: Buffer, at: number, length: number): number | null {
    if (this.#pending.length > 0) return null
    if (this.#state === 'chunk-end') {
      if (at + 1 >= length || bytes[at] !== CR || bytes[at + 1] !== LF) return null
      this.#state = 'chunk-line'
      return at + 2
    }
    if (this.#state !== 'chunk-line') return null
    let size = 0
    let end = at
    for (; end < length && end < at + CHUNK_DIGITS_MAX; end++) {
      const digit = hexDigit(bytes[end] as number)
      if (digit < 0) break
      size = size * 16 + digit
    }
    // The end of the body is rare, so it is left to the general parser.
    if (size === 0 || end + 1 >= length || bytes[end] !== CR || bytes[end + 1] !== LF) return null
    this.#remaining = size
    this.#state = 'chunk'
    return end + 2
  }

  #readLine(bytes: Buffer, at: number, length: number): number {
    const found = bytes.indexOf(LF, at)
    const isWhole = found >= 0 && found < length
    const piece = bytes.subarray(at, isWhole ? found : length)
    const line = this.#pending.length === 0 ? piece : Buffer.concat([this.#pending, piece])
    if (line.length > CHUNK_LINE_BYTES_MAX) throw malformed('a line of its framing is too long')
    if (!isWhole) {
      this.#pending = Buffer.from(line)
      return length
    }
    this.#pending = NOTHING
    const cut = line.at(-1) === CR ? line.length - 1 : line.length
    this.#line(line.toString('latin1', 0, cut))
    return found + 1
  }

  #line(line: string): void {
    if (this.#state === 'chunk-end') {
      if (line !== '') throw malformed('a chunk is longer than its size')
      this.#state = 'chunk-line'
      return
    }
    if (this.#state === 'trailer') {
      this.#trailerBytes += line.length
      if (this.#trailerBytes > HEAD_BYTES_MAX) throw malformed('its trailer is too long')
      if (line === '') this.#state = 'done'
      return
    }
    const size = /^([0-9a-f]{1,8})\s*(;.*)?$/i.exec(line)?.[1]
    if (size === undefined) throw malformed('a chunk has no size')
    this.#remaining = parseInt(size, 16)
    this.#state = this.#remaining === 0 ? 'trailer' : 'chunk'
  }
}

/** -1: not a digit. */
function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}

/** The index after the empty line, or -1. A bare LF ends a line too. */
function endOfHead(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(LF, from); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at + 1] === LF) return at + 2
    if (bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3
  }
  return -1
}

interface ParsedHead {
  readonly version: string
  readonly head: ResponseHead
}

function parseHead(text: string): ParsedHead {
  const firstEnd = text.indexOf('\n')
  const match = /^HTTP\/(1\.[01]) ([1-5]\d{2})(?: |\r?$)/.exec(text.slice(0, firstEnd))
  if (match === null) throw malformed('it does not start with HTTP/1.1 and a status')
  const headers = new Map<string, string>()
  for (let from = firstEnd + 1; from < text.length;) {
    const end = text.indexOf('\n', from)
    const lineEnd = end < 0 ? text.length : end
    const colon = text.indexOf(':', from)
    if (colon > from && colon < lineEnd) {
      addHeader(headers, text.slice(from, colon), text.slice(colon + 1, lineEnd))
    }
    from = lineEnd + 1
  }
  return { version: match[1] as string, head: { status: Number(match[2]), headers } }
}

function addHeader(headers: Map<string, string>, writtenName: string, written: string): void {
  const name = writtenName.trim().toLowerCase()
  const value = written.trim()
  const before = headers.get(name)
  if (before !== undefined && name === 'content-length' && before !== value) {
    throw malformed('it has two different lengths')
  }
  headers.set(name, before === undefined || before === value ? value : `${before}, ${value}`)
}

function malformed(why: string): BatonError {
  return new BatonError('transport.protocol', `the upstream's response is invalid: ${why}`, {
    data: { stage: 'upstream' },
  })
}
