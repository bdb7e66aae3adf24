/**
 * Limits the bytes that wait for clients which do not read, per stream and for all streams together. Above a limit a
 * stream is cut, the largest first, and reported.
 *
 * Only streams with more than `NOTICE_BYTES` waiting bytes are tracked, once per turn of the event loop; a client
 * that reads costs one comparison.
 */
import { cutReply } from './cut-reply.ts'
import type { SentReply, SlowReader } from './cut-reply.ts'

export interface StreamLimits {
  /** Most bytes that may wait for one client; above it the connection is closed. */
  readonly bufferedBytesMax: number
  /** Most bytes that may wait for all such clients together; above it the slowest are disconnected. */
  readonly unsentBytesMax: number
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
    if (bytes - written > this.#limits.bufferedBytesMax) this.#cut(reply, 'bufferedBytesMax')
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
      total -= reply.res.writableLength
      this.#cut(reply, 'unsentBytesMax')
    }
  }

  #cut(reply: SentReply, limit: keyof StreamLimits): void {
    this.#slow.delete(reply)
    cutReply(reply, { limit, limitBytes: this.#limits[limit] }, this.#onCut)
  }
}
