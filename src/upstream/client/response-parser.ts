/**
 * The bytes of HTTP/1.1 responses, in any pieces, to a head, pieces of the body and an end.
 *
 * Owns: the framing (length, chunks, until the connection closes) and its bounds. One parser reads one response; what
 * follows it on the connection is an error of the server, as nothing was asked for.
 */
import { BatonError } from '../../base/index.ts'

export interface ResponseHead {
  readonly status: number
  /** Lower-case names; several of one name are joined by a comma, as HTTP allows. */
  readonly headers: ReadonlyMap<string, string>
}

export interface ResponseEvents {
  onHead(head: ResponseHead): void
  /** A view of the bytes that were pushed: copy what is to be kept. */
  onBody(bytes: Uint8Array): void
  /** Once. `isReusable`: the connection may carry another request. */
  onEnd(isReusable: boolean): void
}

const HEAD_BYTES_MAX = 64 * 1024
const CHUNK_LINE_BYTES_MAX = 1024
const CR = 13
const LF = 10

type State = 'head' | 'length' | 'chunk-line' | 'chunk' | 'chunk-end' | 'trailer' | 'close' | 'done'

export class ResponseParser {
  readonly #events: ResponseEvents
  readonly #hasBody: boolean
  #state: State = 'head'
  /** Of a head or a line that has come in part. */
  #pending: Buffer = Buffer.alloc(0)
  #remaining = 0
  #trailerBytes = 0
  #isKeptAlive = true
  #hasBytes = false

  /** `hasBody` is false for a HEAD request. */
  constructor(events: ResponseEvents, hasBody = true) {
    this.#events = events
    this.#hasBody = hasBody
  }

  /** Whether anything at all has come. */
  get hasBytes(): boolean {
    return this.#hasBytes
  }

  get isDone(): boolean {
    return this.#state === 'done'
  }

  /** Throws `transport.protocol` for what is not HTTP. */
  push(bytes: Buffer): void {
    if (bytes.length > 0) this.#hasBytes = true
    let at = 0
    while (at < bytes.length) {
      if (this.#state === 'done') {
        this.#isKeptAlive = false
        return
      }
      at = this.#step(bytes, at)
    }
  }

  /** The connection was closed. Returns false when the response was cut off. */
  close(): boolean {
    if (this.#state === 'close') this.#end(false)
    return this.#state === 'done'
  }

  #step(bytes: Buffer, at: number): number {
    switch (this.#state) {
      case 'head':
        return this.#readHead(bytes, at)
      case 'length':
        return this.#readCounted(bytes, at, () => this.#end(this.#isKeptAlive))
      case 'chunk':
        return this.#readCounted(bytes, at, () => {
          this.#state = 'chunk-end'
        })
      case 'chunk-line':
      case 'chunk-end':
      case 'trailer':
        return this.#readLine(bytes, at)
      case 'close':
        this.#events.onBody(at === 0 ? bytes : bytes.subarray(at))
        return bytes.length
      case 'done':
        return bytes.length
    }
  }

  #readCounted(bytes: Buffer, at: number, onFull: () => void): number {
    const take = Math.min(this.#remaining, bytes.length - at)
    this.#remaining -= take
    this.#events.onBody(bytes.subarray(at, at + take))
    if (this.#remaining === 0) onFull()
    return at + take
  }

  #readHead(bytes: Buffer, at: number): number {
    const before = this.#pending.length
    const rest = at === 0 ? bytes : bytes.subarray(at)
    const all = before === 0 ? rest : Buffer.concat([this.#pending, rest])
    const end = endOfHead(all, Math.max(0, before - 3))
    if (end < 0) {
      if (all.length > HEAD_BYTES_MAX) throw malformed('its head is too long')
      this.#pending = Buffer.from(all)
      return bytes.length
    }
    this.#pending = Buffer.alloc(0)
    this.#begin(parseHead(all.toString('latin1', 0, end)))
    return at + (end - before)
  }

  #begin({ version, head }: ParsedHead): void {
    const { status, headers } = head
    // An interim response: the real one follows.
    if (status >= 100 && status < 200) return
    const connection = headers.get('connection')?.toLowerCase() ?? ''
    this.#isKeptAlive =
      version === '1.1' ? !connection.includes('close') : connection.includes('keep-alive')
    this.#events.onHead(head)
    if (!this.#hasBody || status === 204 || status === 304) {
      this.#end(this.#isKeptAlive)
      return
    }
    const coding = headers.get('transfer-encoding')?.toLowerCase()
    const length = headers.get('content-length')
    if (coding !== undefined && coding !== 'identity') {
      if (!/(^|[,\s])chunked$/.test(coding)) throw malformed('its transfer coding is not known')
      this.#state = 'chunk-line'
    } else if (length === undefined) this.#state = 'close'
    else {
      if (!/^\d{1,15}$/.test(length)) throw malformed('its length is not a number')
      this.#remaining = Number(length)
      if (this.#remaining === 0) this.#end(this.#isKeptAlive)
      else this.#state = 'length'
    }
  }

  #readLine(bytes: Buffer, at: number): number {
    const found = bytes.indexOf(LF, at)
    const end = found < 0 ? bytes.length : found
    const piece = bytes.subarray(at, end)
    const line = this.#pending.length === 0 ? piece : Buffer.concat([this.#pending, piece])
    if (line.length > CHUNK_LINE_BYTES_MAX) throw malformed('a line of its framing is too long')
    if (found < 0) {
      this.#pending = Buffer.from(line)
      return bytes.length
    }
    this.#pending = Buffer.alloc(0)
    const cut = line.at(-1) === CR ? line.length - 1 : line.length
    this.#line(line.toString('latin1', 0, cut))
    return found + 1
  }

  #line(line: string): void {
    if (this.#state === 'chunk-end') {
      if (line !== '') throw malformed('a chunk is longer than it says')
      this.#state = 'chunk-line'
      return
    }
    if (this.#state === 'trailer') {
      this.#trailerBytes += line.length
      if (this.#trailerBytes > HEAD_BYTES_MAX) throw malformed('its trailer is too long')
      if (line === '') this.#end(this.#isKeptAlive)
      return
    }
    const size = /^([0-9a-f]{1,8})\s*(;.*)?$/i.exec(line)?.[1]
    if (size === undefined) throw malformed('a chunk has no length')
    this.#remaining = parseInt(size, 16)
    this.#state = this.#remaining === 0 ? 'trailer' : 'chunk'
  }

  #end(isReusable: boolean): void {
    this.#state = 'done'
    this.#events.onEnd(isReusable)
  }
}

/** Index behind the empty line, or -1. A bare LF ends a line, too. */
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
  const [first = '', ...lines] = text.split(/\r?\n/)
  const match = /^HTTP\/(1\.[01]) (\d{3})(?: |$)/.exec(first)
  if (match === null) throw malformed('it does not begin as HTTP/1.1')
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon <= 0) continue
    const name = line.slice(0, colon).trim().toLowerCase()
    const value = line.slice(colon + 1).trim()
    const before = headers.get(name)
    if (before !== undefined && name === 'content-length' && before !== value) {
      throw malformed('it says two lengths')
    }
    headers.set(name, before === undefined || before === value ? value : `${before}, ${value}`)
  }
  return { version: match[1] as string, head: { status: Number(match[2]), headers } }
}

function malformed(why: string): BatonError {
  return new BatonError('transport.protocol', `the upstream's response is invalid: ${why}`, {
    data: { stage: 'upstream' },
  })
}
