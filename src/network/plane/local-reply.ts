/**
 * One reply within a process: passes on the worker's items and ensures that the sink's end is called once.
 */
import { BatonError } from '../../base/index.ts'
import type { InFlight } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type { Chunk, LegStart, ReplySink } from '../../request/index.ts'
import type { CancelKind, ReplyPort, ServedRequest } from '../../wire/index.ts'

/** Most items of one reply in a turn of the event loop. */
const TURN_ITEMS = 256

export interface LocalReplyOptions {
  readonly onEnded: () => void
  readonly onFault: (error: unknown) => void
}

export class LocalReply implements ReplyPort, InFlight {
  place = -1
  #items = 0
  readonly #sink: ReplySink
  readonly #options: LocalReplyOptions
  #hasEnded = false
  #handle: ServedRequest | null = null
  #isDropped = false
  #cancelled: CancelKind | null = null

  constructor(sink: ReplySink, options: LocalReplyOptions) {
    this.#sink = sink
    this.#options = options
  }

  /** Set when `serve` has returned; an earlier cancel is passed on then. */
  set handle(handle: ServedRequest) {
    this.#handle = handle
    if (this.#isDropped) drop(handle)
    else if (this.#cancelled) handle.cancel(this.#cancelled)
  }

  started(start: LegStart): void {
    this.chunk({ tokenIds: [], started: start })
  }

  /**
   * The sink is called directly and has consumed what it was given. But an engine that never waits would stop the
   * process: nothing else runs, and no client could leave.
   */
  get isWritable(): boolean {
    return this.#items < TURN_ITEMS
  }

  token(tokenId: number): void {
    if (this.#hasEnded) return
    this.#items++
    try {
      this.#sink.onToken(tokenId)
    } catch (error) {
      this.#onSinkFault(error)
    }
  }

  chunk(chunk: Chunk): void {
    if (this.#hasEnded) return
    this.#items++
    if (chunk.finish !== undefined) {
      this.#end(() => this.#sink.onChunk(chunk))
      return
    }
    try {
      this.#sink.onChunk(chunk)
    } catch (error) {
      this.#onSinkFault(error)
    }
  }

  error(error: BatonError): void {
    if (!this.#hasEnded) this.#end(() => this.#sink.onError(error))
  }

  async drained(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    this.#items = 0
  }

  cancel(kind: CancelKind): void {
    if (this.#hasEnded) return
    if (kind === 'kill') this.#end(() => this.#sink.onChunk(finishChunk('cancelled')))
    this.#cancelled = kind
    this.#handle?.cancel(kind)
  }

  /** The worker is gone, or the sink threw; handled like a lost connection. */
  fail(reason: BatonError): void {
    if (this.#hasEnded) return
    this.#end(() => this.#sink.onError(reason))
    this.#isDropped = true
    if (this.#handle !== null) drop(this.#handle)
  }

  #onSinkFault(error: unknown): void {
    this.fail(BatonError.from(error))
  }

  /** Reports the error to a sink that threw at its end. */
  #tellBroken(error: unknown): void {
    try {
      this.#sink.onError(BatonError.from(error))
    } catch (again) {
      this.#options.onFault(again)
    }
  }

  #end(tell: () => void): void {
    this.#hasEnded = true
    this.#options.onEnded()
    try {
      tell()
    } catch (error) {
      this.#options.onFault(error)
      this.#tellBroken(error)
    }
  }
}

function drop(handle: ServedRequest): void {
  if (handle.drop === undefined) handle.cancel('kill')
  else handle.drop()
}
