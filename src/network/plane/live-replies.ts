/**
 * The replies over one connection to a worker: the sink of each stream, its credit, and its single end.
 *
 * A sink that throws, or an invalid chunk, ends only its own reply. It knows nothing about connecting:
 * `worker-link.ts` says when all have failed.
 */
import { BatonError } from '../../base/index.ts'
import { chunkFault } from '../../engine/index.ts'
import type { Chunk, ReplySink } from '../../request/index.ts'
import { encodeCancel, encodeCredit, protocolError, readU32 } from '../../wire/index.ts'
import type { WireSocket } from '../link/wire-socket.ts'
import { StreamTable } from './stream-table.ts'

export interface LiveRepliesOptions {
  /** Items that the worker may send for one reply before it gets more credit. */
  readonly windowItems: number
  /** Null: not connected now. */
  readonly wire: () => Pick<WireSocket, 'writer' | 'flushSoon'> | null
  /** Called when a sink threw at its end. */
  readonly onFault: (error: unknown) => void
  /** Called when the last reply has ended. */
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

  /** The stream id; undefined: there are too many. */
  add(sink: ReplySink): number | undefined {
    return this.#streams.add(sink)
  }

  has(streamId: number): boolean {
    return this.#streams.has(streamId)
  }

  /** Handles a TOKENS frame. The hot path: no allocation per token. */
  tokens(bytes: Uint8Array, start: number, end: number): void {
    if ((end - start) % 8 !== 0) {
      throw protocolError('message.malformed', 'the length of TOKENS is not a multiple of a pair')
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

  /** Gives new credit when half of the window is used. */
  #count(streamId: number): void {
    const taken = this.#streams.count(streamId)
    if (taken < this.#creditAt) return
    const wire = this.#options.wire()
    if (wire === null) return
    encodeCredit(wire.writer, streamId, taken)
    wire.flushSoon()
    this.#streams.resetCount(streamId)
  }

  /** Reports the error to a sink that threw at its end; a sink that has ended itself gets no second end. */
  #tellBroken(sink: ReplySink, error: unknown): void {
    try {
      sink.onError(BatonError.from(error))
    } catch (again) {
      this.#options.onFault(again)
    }
  }

  /** An error in one sink must not close the connection of the others. */
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

/** A Baton worker has validated its engine's output; a foreign or older worker may not have. */
function wrongIn(chunk: Chunk): BatonError | null {
  const { embedding, ...rest } = chunk
  const fault = chunkFault(embedding === undefined ? chunk : rest)
  if (fault === null) return null
  const text = `the worker violated the stream contract (${fault.rule}): ${fault.detail}`
  return new BatonError('backend.contract_violation', text, { data: { rule: fault.rule } })
}
