/**
 * Limits the bytes that wait for clients which do not read, per stream and for all streams together. Above a limit a
 * stream is cut, the largest first, and reported.
 *
 * Only streams with more than `NOTICE_BYTES` waiting bytes are tracked, once per turn of the event loop; a client
 * that reads costs one comparison.
 */
import type { ServerResponse } from 'node:http'
import type { ClientSignal } from './client-signal.ts'
import { isHttp2 } from './http-listener.ts'

export interface StreamLimits {
  /** Most bytes that may wait for one client; above it the connection is closed. */
  readonly bufferedBytesMax: number
  /** Most bytes that may wait for all such clients together; above it the slowest are disconnected. */
  readonly unsentBytesMax: number
}

/** A reply that is being sent. */
export interface SentReply {
  readonly res: ServerResponse
  readonly gone: ClientSignal
  requestId: string | null
}

export interface SlowReader {
  readonly requestId: string | null
  readonly unsentBytes: number
  /** The limit that was exceeded. */
  readonly limit: keyof StreamLimits
  readonly limitBytes: number
}

export const DEFAULT_STREAM_LIMITS: StreamLimits = {
  bufferedBytesMax: 4 * 1024 * 1024,
  unsentBytesMax: 256 * 1024 * 1024,
}

const NOTICE_BYTES = 16 * 1024

export class UnsentBytes {
  readonly #limits: StreamLimits
  readonly #onCut: (reader: SlowReader) => void
  readonly #slow = new Set<SentReply>()
  #isDue = false

  constructor(limits: StreamLimits, onCut: (reader: SlowReader) => void) {
    this.#limits = limits
    this.#onCut = onCut
  }

  /** `written` bytes were just written to the reply, so the client has had no time to read them. */
  wrote(reply: SentReply, written: number): void {
    const bytes = reply.res.writableLength
    if (bytes < NOTICE_BYTES) return
    if (bytes - written > this.#limits.bufferedBytesMax) this.#cut(reply, bytes, 'bufferedBytesMax')
    else this.#watch(reply)
  }

  /** Called after a whole reply was written, which is not limited by itself. */
  wroteAll(reply: SentReply): void {
    if (reply.res.writableLength >= NOTICE_BYTES) this.#watch(reply)
  }

  #watch(reply: SentReply): void {
    if (!this.#slow.has(reply)) {
      this.#slow.add(reply)
      reply.res.once('close', () => this.#slow.delete(reply))
    }
    if (this.#isDue) return
    this.#isDue = true
    setImmediate(() => this.#weigh())
  }

  #weigh(): void {
    this.#isDue = false
    const { unsentBytesMax } = this.#limits
    let total = 0
    for (const { res } of this.#slow) total += res.writableLength
    if (total <= unsentBytesMax) return
    const largestFirst = [...this.#slow].sort((a, b) => b.res.writableLength - a.res.writableLength)
    for (const reply of largestFirst) {
      if (total <= unsentBytesMax) return
      const bytes = reply.res.writableLength
      total -= bytes
      this.#cut(reply, bytes, 'unsentBytesMax')
    }
  }

  #cut(reply: SentReply, unsentBytes: number, limit: keyof StreamLimits): void {
    const carrier = carrierOf(reply.res)
    if (carrier.destroyed) return
    this.#slow.delete(reply)
    const { requestId } = reply
    this.#onCut({ requestId, unsentBytes, limit, limitBytes: this.#limits[limit] })
    // The request's record says so too, because this client did not disconnect by itself.
    reply.gone.abort('the client read too slowly: its reply was cut')
    carrier.destroy()
  }
}

/**
 * What holds the bytes of a reply. A pipelined reply whose turn has not come has no socket yet, and destroying it would
 * free nothing until the replies before it are sent, so its whole connection ends.
 */
function carrierOf(res: ServerResponse): { readonly destroyed: boolean; destroy(): unknown } {
  const isWaiting = !isHttp2(res.req) && res.socket === null
  return isWaiting ? res.req.socket : res
}
