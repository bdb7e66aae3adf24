/**
 * The life of an embeddings call: one request per input, a bounded number in flight, each answered with one
 * vector.
 *
 * It ends exactly once: all vectors have arrived, one input failed (which cancels the others), the client
 * disconnected, or nothing arrived for too long.
 */
import { BatonError } from '../../base/index.ts'
import type { CancelSignal, Clock, Timer } from '../../base/index.ts'
import type {
  Chunk,
  GenerateRequest,
  PhaseEvent,
  ReplySink,
  RequestHandle,
  RequestService,
} from '../../request/index.ts'
import { clientGone, deadlineError, inStage } from '../http/stage-error.ts'

/** Most inputs of one call in flight, so that a long list leaves capacity for other calls. */
const IN_FLIGHT_MAX = 32

interface EmbeddingRunOptions {
  readonly service: RequestService
  readonly requests: readonly GenerateRequest[]
  readonly clock: Clock
  readonly signal: CancelSignal
  /** Most milliseconds without any vector. */
  readonly silenceMs: number
  readonly onPhase: (event: PhaseEvent) => void
}

export class EmbeddingRun {
  readonly #options: EmbeddingRunOptions
  readonly #vectors: Float32Array[] = []
  readonly #handles = new Map<number, RequestHandle>()
  #next = 0
  #done = 0
  #ended = false
  #timer: Timer | null = null
  #resolve: (vectors: readonly Float32Array[]) => void = () => {}
  #reject: (error: BatonError) => void = () => {}
  readonly #onAbort = (): void => this.#fail(clientGone('prefill', this.#options.signal), 'kill')

  constructor(options: EmbeddingRunOptions) {
    this.#options = options
  }

  /** In the order of the requests. Called once. */
  vectors(): Promise<readonly Float32Array[]> {
    const { requests, signal } = this.#options
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      if (signal.aborted) return this.#onAbort()
      signal.addEventListener('abort', this.#onAbort)
      this.#watch()
      while (this.#next < Math.min(IN_FLIGHT_MAX, requests.length)) this.#sendNext()
    })
  }

  #sendNext(): void {
    const index = this.#next++
    const request = this.#options.requests[index]
    if (request === undefined || this.#ended) return
    let hasEnded = false
    const sink: ReplySink = {
      onToken: () => {},
      onChunk: (chunk) => {
        if (chunk.finish === undefined) return
        hasEnded = true
        this.#finished(index, chunk)
      },
      onError: (error) => {
        hasEnded = true
        this.#handles.delete(index)
        this.#fail(inStage(error, 'prefill'), 'stop')
      },
      onPhase: this.#options.onPhase,
    }
    const handle = this.#options.service.send(request, sink)
    if (!hasEnded && this.#ended) handle.cancel('stop')
    else if (!hasEnded) this.#handles.set(index, handle)
  }

  #finished(index: number, { embedding, finish }: Chunk): void {
    this.#handles.delete(index)
    if (this.#ended) return
    if (embedding === undefined) {
      const text = `the worker ended with '${finish}' and sent no embedding`
      return this.#fail(new BatonError('backend.contract_violation', text), 'stop')
    }
    this.#vectors[index] = embedding
    this.#done++
    if (this.#done === this.#options.requests.length) {
      this.#end()
      this.#resolve(this.#vectors)
      return
    }
    this.#watch()
    this.#sendNext()
  }

  #fail(error: BatonError, kind: 'stop' | 'kill'): void {
    if (this.#ended) return
    this.#end()
    for (const handle of this.#handles.values()) handle.cancel(kind)
    this.#handles.clear()
    this.#reject(error)
  }

  #end(): void {
    this.#ended = true
    this.#timer?.cancel()
    this.#options.signal.removeEventListener('abort', this.#onAbort)
  }

  #watch(): void {
    const { clock, silenceMs } = this.#options
    this.#timer?.cancel()
    this.#timer = clock.after(silenceMs, () => {
      this.#fail(deadlineError('prefill', silenceMs), 'kill')
    })
  }
}
