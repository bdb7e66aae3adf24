/**
 * The replies that come over one connection to a worker: which stream is whose, credit for what was taken, each ended once.
 *
 * A reader that throws, and a chunk that no engine may give, cost their own reply only. Knows nothing of connecting: `worker-link.ts` says when all have failed.
 */
import { BatonError } from '../../base/index.ts'
import { chunkFault } from '../../engine/index.ts'
import type { Chunk, ReplySink } from '../../request/index.ts'
import { encodeCancel, encodeCredit, protocolError, readU32 } from '../../wire/index.ts'
import type { WireSocket } from '../link/wire-socket.ts'
import { StreamTable } from './stream-table.ts'

export interface LiveRepliesOptions {
  /** What the worker may send of one reply before it is given credit again. */
  readonly windowItems: number
  /** Null: no connection now. */
  readonly wire: () => Pick<WireSocket, 'writer' | 'flushSoon'> | null
  /** A reader threw while it was told of an end. */
  readonly onFault: (error: unknown) => void
  /** The last reply has ended. */
  readonly onIdle: () => void
}

export class LiveReplies {
  readonly #options: LiveRepliesOptions
  readonly #creditAt: number
  readonly #streams = new StreamTable()

  constructor(options: LiveRepliesOptions) {
    this.#options = options
    this.#creditAt = options.windowItems / 2
  }

  get size(): number {
    return this.#streams.size
  }

  /** Its stream id; undefined: there are too many. */
  add(sink: ReplySink): number | undefined {
    return this.#streams.add(sink)
  }

  has(streamId: number): boolean {
    return this.#streams.has(streamId)
  }

  /** A TOKENS frame. The hot path: no allocation per token. */
  tokens(bytes: Uint8Array, start: number, end: number): void {
    if ((end - start) % 8 !== 0) {
      throw protocolError('message.malformed', 'TOKENS is not made of whole pairs')
    }
    for (let at = start; at < end; at += 8) {
      const streamId = readU32(bytes, at)
      const sink = this.#streams.get(streamId)
      if (sink === undefined) continue
      this.#count(streamId)
      try {
        sink.onToken(readU32(bytes, at + 4))
      } catch (error) {
        this.#onSinkFault(streamId, error)
      }
    }
  }

  chunk(streamId: number, chunk: Chunk): void {
    const fault = wrongIn(chunk)
    if (fault !== null) {
      this.#refuse(streamId, fault)
      return
    }
    if (chunk.finish !== undefined) {
      this.end(streamId, (sink) => sink.onChunk(chunk))
      return
    }
    const sink = this.#streams.get(streamId)
    if (sink === undefined) return
    this.#count(streamId)
    try {
      sink.onChunk(chunk)
    } catch (error) {
      this.#onSinkFault(streamId, error)
    }
  }

  end(streamId: number, tell: (sink: ReplySink) => void): void {
    const sink = this.#streams.delete(streamId)
    if (sink === undefined) return
    try {
      tell(sink)
    } catch (error) {
      this.#options.onFault(error)
      this.#tellBroken(sink, error)
    }
    if (this.#streams.size === 0) this.#options.onIdle()
  }

  failAll(reason: BatonError): void {
    for (const sink of this.#streams.clear()) {
      try {
        sink.onError(reason)
      } catch (error) {
        this.#options.onFault(error)
      }
    }
  }

  /** Gives credit again when half of the window is used. */
  #count(streamId: number): void {
    const taken = this.#streams.count(streamId)
    if (taken < this.#creditAt) return
    const wire = this.#options.wire()
    if (wire === null) return
    encodeCredit(wire.writer, streamId, taken)
    wire.flushSoon()
    this.#streams.resetCount(streamId)
  }

  /** A reader that could not take the end has none yet; one that ends itself in spite of it takes no second one. */
  #tellBroken(sink: ReplySink, error: unknown): void {
    try {
      sink.onError(BatonError.from(error))
    } catch (again) {
      this.#options.onFault(again)
    }
  }

  /** One reader's fault must not cost the others their connection. */
  #onSinkFault(streamId: number, error: unknown): void {
    this.#refuse(streamId, BatonError.from(error))
  }

  #refuse(streamId: number, error: BatonError): void {
    if (!this.#streams.has(streamId)) return
    const wire = this.#options.wire()
    if (wire !== null) {
      encodeCancel(wire.writer, streamId, 'kill')
      wire.flushSoon()
    }
    this.end(streamId, (sink) => sink.onError(error))
  }
}

/** A Baton worker has checked its engine; another kind of worker, or an older one, may not have. */
function wrongIn(chunk: Chunk): BatonError | null {
  const { embedding, ...rest } = chunk
  const fault = chunkFault(embedding === undefined ? chunk : rest)
  if (fault === null) return null
  const text = `the worker sent what breaks the stream contract (${fault.rule}): ${fault.detail}`
  return new BatonError('backend.contract_violation', text, { data: { rule: fault.rule } })
}
