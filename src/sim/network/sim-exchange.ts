/**
 * One request and its reply on a simulated connection: the frontend's handle and the worker's reply port.
 *
 * Each side knows only what has reached it: the frontend's end is reported once, whether it came from the worker,
 * from the connection or from a kill; the worker may still send for a while.
 */
import type { BatonError } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type {
  Chunk,
  GenerateRequest,
  ReplySink,
  RequestHandle,
  LegStart,
} from '../../request/index.ts'
import type { SimRunData } from '../../simengine/index.ts'
import type { ReplyPort, ServedRequest, WorkerHandler } from '../../wire/index.ts'
import type { OrderedPipe } from './ordered-pipe.ts'

/** What an exchange needs of its connection. */
export interface ExchangeLink {
  readonly toFrontend: OrderedPipe
  nowMs(): number
  /** To the worker; may be duplicated. */
  sendControl(deliver: () => void): void
  /** False: the message is lost, and the connection with it. */
  passes(): boolean
  frontendEnded(exchange: SimExchange): void
  workerEnded(exchange: SimExchange): void
}

export class SimExchange implements ReplyPort, RequestHandle {
  readonly isWritable = true
  /** Sequence number on the connection, in the order in which requests were sent. */
  readonly number: number
  readonly #link: ExchangeLink
  readonly #request: GenerateRequest
  readonly #sink: ReplySink
  #served: ServedRequest | null = null
  #hasFrontendEnded = false
  #hasWorkerEnded = false
  /** Its connection is gone; a new connection does not affect it. */
  #isCut = false

  constructor(link: ExchangeLink, number: number, request: GenerateRequest, sink: ReplySink) {
    this.number = number
    this.#link = link
    this.#request = request
    this.#sink = sink
  }

  cut(): void {
    this.#isCut = true
  }

  // The frontend's side

  cancel(kind: 'stop' | 'kill'): void {
    if (this.#hasFrontendEnded) return
    if (!this.#isCut) this.#link.sendControl(() => this.#served?.cancel(kind))
    if (kind === 'kill') this.#tell((sink) => sink.onChunk(finishChunk('cancelled')))
  }

  /** The frontend learns that the connection is lost. */
  failAtFrontend(reason: BatonError): void {
    this.#tell((sink) => sink.onError(reason))
  }

  // The worker's side

  /** The request has reached the worker. */
  arrive(handler: WorkerHandler): void {
    this.#served = handler.serve(this.#request, this)
  }

  refuse(error: BatonError): void {
    this.error(error)
  }

  /** The worker learns that the connection is lost. */
  dropAtWorker(): void {
    if (this.#hasWorkerEnded) return
    this.#hasWorkerEnded = true
    if (this.#served?.drop === undefined) this.#served?.cancel('kill')
    else this.#served.drop()
  }

  started(start: LegStart): void {
    this.chunk({ tokenIds: [], started: start })
  }

  token(tokenId: number): void {
    if (this.#hasWorkerEnded || this.#isCut || !this.#link.passes()) return
    const { toFrontend } = this.#link
    if (toFrontend.isDirect) this.#onToken(tokenId)
    else toFrontend.send(() => this.#onToken(tokenId))
  }

  chunk(chunk: Chunk): void {
    if (this.#hasWorkerEnded) return
    if (chunk.finish !== undefined) this.#endAtWorker()
    if (this.#isCut || !this.#link.passes()) return
    const sentMs = this.#link.nowMs()
    this.#link.toFrontend.send(() => this.#onChunk(later(chunk, this.#link.nowMs() - sentMs)))
  }

  error(error: BatonError): void {
    if (this.#hasWorkerEnded) return
    this.#endAtWorker()
    if (this.#isCut || !this.#link.passes()) return
    this.#link.toFrontend.send(() => this.#tell((sink) => sink.onError(error)))
  }

  drained(): Promise<void> {
    return Promise.resolve()
  }

  #endAtWorker(): void {
    this.#hasWorkerEnded = true
    this.#link.workerEnded(this)
  }

  #onToken(tokenId: number): void {
    if (!this.#hasFrontendEnded) this.#sink.onToken(tokenId)
  }

  #onChunk(chunk: Chunk): void {
    if (chunk.finish !== undefined) this.#tell((sink) => sink.onChunk(chunk))
    else if (!this.#hasFrontendEnded) this.#sink.onChunk(chunk)
  }

  #tell(tell: (sink: ReplySink) => void): void {
    if (this.#hasFrontendEnded) return
    this.#hasFrontendEnded = true
    this.#link.frontendEnded(this)
    tell(this.#sink)
  }
}

/** Tokens of several steps reach the reader with the same delay as their chunk. */
function later(chunk: Chunk, byMs: number): Chunk {
  const { stepEndsMs } = (chunk.engineData ?? {}) as Partial<SimRunData>
  if (byMs === 0 || stepEndsMs === undefined) return chunk
  return { ...chunk, engineData: { stepEndsMs: stepEndsMs.map((atMs) => atMs + byMs) } }
}
