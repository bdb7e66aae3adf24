/**
 * Bytes that wait for clients which do not read, of one stream and over all of them; over a limit a stream is cut, the
 * largest first, and its owner is reported.
 *
 * Only streams of which more than `NOTICE_BYTES` wait are looked at, once per turn of the event loop: a client that reads
 * costs a comparison.
 */
import type { ServerResponse } from 'node:http'
import type { ClientSignal } from './client-signal.ts'

export interface StreamLimits {
  /** Bytes that may wait for one client that does not read; one more and the connection is closed. */
  readonly bufferedBytesMax: number
  /** Bytes that may wait for all such clients together; then the slowest are closed. */
  readonly unsentBytesMax: number
}

/** A reply on its way. */
export interface SentReply {
  readonly res: ServerResponse
  readonly gone: ClientSignal
  readonly requestId: string | null
}

export interface SlowReader {
  readonly requestId: string | null
  readonly unsentBytes: number
  /** Which limit was reached. */
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

  /** After so many bytes were written to the reply: the client has had no time yet to read these. */
  wrote(reply: SentReply, written: number): void {
    const bytes = reply.res.writableLength
    if (bytes < NOTICE_BYTES) return
    if (bytes - written > this.#limits.bufferedBytesMax) this.#cut(reply, bytes, 'bufferedBytesMax')
    else this.#watch(reply)
  }

  /** After a whole reply was written, which may be as large as it is. */
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
    if (reply.res.destroyed) return
    this.#slow.delete(reply)
    const { requestId } = reply
    this.#onCut({ requestId, unsentBytes, limit, limitBytes: this.#limits[limit] })
    // Its request's record says so, too: this client has not left by itself.
    reply.gone.abort('the client read too slowly: its reply was cut')
    reply.res.destroy()
  }
}
