/**
 * The worker's end of one request over a connection: a `ReplyPort` that writes into the connection's frames.
 *
 * The frontend gives credit in items (a token or a chunk). Without credit a bounded number of items is buffered
 * here; above the limit the reply ends with an error, so that a frontend that stopped reading costs a bounded amount
 * of memory.
 */
import { BatonError } from '../../base/index.ts'
import type { Chunk, LegStart } from '../../request/index.ts'
import type { CancelKind, ReplyPort, ServedRequest } from '../../wire/index.ts'

/** The connection as a stream uses it. */
export interface StreamOutlet {
  writeToken(streamId: number, tokenId: number): void
  /** Throws when the chunk cannot be encoded. */
  writeChunk(streamId: number, chunk: Chunk): void
  writeError(streamId: number, error: BatonError): void
  streamEnded(streamId: number): void
}

export interface ReplyStreamOptions {
  readonly streamId: number
  /** Items that the reader accepts before it must give more credit. */
  readonly credit: number
  /** Items that may wait for credit. */
  readonly backlogMax: number
}

export class ReplyStream implements ReplyPort {
  readonly #outlet: StreamOutlet
  readonly #streamId: number
  readonly #backlogMax: number
  #credit: number
  #backlog: (number | Chunk | BatonError)[] = []
  #hasEnded = false
  #handle: ServedRequest | null = null
  #cancelled: CancelKind | null = null
  #waiters: (() => void)[] = []

  constructor(outlet: StreamOutlet, options: ReplyStreamOptions) {
    this.#outlet = outlet
    this.#streamId = options.streamId
    this.#credit = options.credit
    this.#backlogMax = options.backlogMax
  }

  get isWritable(): boolean {
    return this.#credit > 0 && this.#backlog.length === 0
  }

  /** Set when `serve` has returned; an earlier cancel is passed on then. */
  set handle(handle: ServedRequest) {
    this.#handle = handle
    if (this.#cancelled) handle.cancel(this.#cancelled)
  }

  started(start: LegStart): void {
    this.chunk({ tokenIds: [], started: start })
  }

  token(tokenId: number): void {
    if (this.#hasEnded) return
    if (this.#credit > 0 && this.#backlog.length === 0) {
      this.#credit -= 1
      this.#outlet.writeToken(this.#streamId, tokenId)
    } else this.#wait(tokenId)
  }

  chunk(chunk: Chunk): void {
    if (this.#hasEnded) return
    if (chunk.finish !== undefined) this.#hasEnded = true
    if (this.#credit > 0 && this.#backlog.length === 0) this.#write(chunk)
    else this.#wait(chunk)
  }

  error(error: BatonError): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    // An error is sent at once; tokens that wait for credit will not be used.
    this.#backlog = []
    this.#write(error)
  }

  async drained(): Promise<void> {
    if (this.isWritable || this.#hasEnded) return
    await new Promise<void>((resolve) => this.#waiters.push(resolve))
  }

  /** The reader has consumed items and gives credit for as many more. */
  give(items: number): void {
    this.#credit += items
    let sent = 0
    while (sent < this.#backlog.length && this.#credit > 0) {
      const item = this.#backlog[sent]
      sent += 1
      if (item !== undefined) this.#write(item)
    }
    this.#backlog = this.#backlog.slice(sent)
    if (this.isWritable) this.#wake()
  }

  cancel(kind: CancelKind): void {
    if (kind === 'kill') {
      this.#hasEnded = true
      this.#end()
    }
    this.#cancelled = kind
    this.#handle?.cancel(kind)
  }

  /** The connection was lost. */
  drop(): void {
    this.#hasEnded = true
    this.#end()
    const handle = this.#handle
    if (handle?.drop === undefined) handle?.cancel('kill')
    else handle.drop()
  }

  #wait(item: number | Chunk): void {
    if (this.#backlog.length < this.#backlogMax || typeof item === 'object') {
      this.#backlog.push(item)
      return
    }
    this.error(
      new BatonError('capacity.worker_overloaded', 'the reader of this stream is too slow', {
        data: { backlogMax: this.#backlogMax },
      }),
    )
    this.#handle?.cancel('kill')
  }

  #write(item: number | Chunk | BatonError): void {
    this.#credit -= 1
    if (typeof item === 'number') {
      this.#outlet.writeToken(this.#streamId, item)
    } else if (item instanceof BatonError) {
      this.#outlet.writeError(this.#streamId, item)
      this.#end()
    } else {
      this.#writeChunk(item)
    }
  }

  #writeChunk(chunk: Chunk): void {
    try {
      this.#outlet.writeChunk(this.#streamId, chunk)
      if (chunk.finish !== undefined) this.#end()
    } catch (error) {
      this.#hasEnded = true
      const text = 'the engine made a chunk that cannot be encoded for the wire'
      this.#write(new BatonError('backend.contract_violation', text, { cause: error }))
      this.#handle?.cancel('kill')
    }
  }

  #end(): void {
    this.#backlog = []
    this.#outlet.streamEnded(this.#streamId)
    this.#wake()
  }

  #wake(): void {
    const waiters = this.#waiters
    this.#waiters = []
    for (const wake of waiters) wake()
  }
}
