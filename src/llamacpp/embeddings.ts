/** Requests for embeddings to the engine's thread, and their callers. */
import { BatonError } from '../base/index.ts'
import type { GenerateContext } from '../engine/index.ts'
import type { StepMessage, ToThread } from './thread/thread-messages.ts'

interface EmbeddingsOptions {
  readonly contextLength: number
  readonly queueMax: number
  readonly send: (message: ToThread) => void
}

interface Waiting {
  resolve(vector: Float32Array): void
  reject(error: BatonError): void
}

export class Embeddings {
  readonly #options: EmbeddingsOptions
  readonly #waiting = new Map<number, Waiting>()

  constructor(options: EmbeddingsOptions) {
    this.#options = options
  }

  /** Throws `capacity.worker_overloaded` when too many wait. A cancelled request gets an empty vector. */
  async embed(id: number, tokenIds: Uint32Array, context: GenerateContext): Promise<Float32Array> {
    const { contextLength, queueMax, send } = this.#options
    if (tokenIds.length > contextLength) {
      throw new BatonError(
        'request.context_length_exceeded',
        `the text has ${tokenIds.length} tokens, more than the context of ${contextLength}`,
      )
    }
    if (this.#waiting.size >= queueMax) {
      throw new BatonError(
        'capacity.worker_overloaded',
        `too many embeddings are waiting: at most ${queueMax} are allowed`,
      )
    }
    if (context.isStopped) return new Float32Array(0)
    const cancel = (): void => send({ kind: 'cancel', id })
    context.signal.addEventListener('abort', cancel, { once: true })
    try {
      return await new Promise<Float32Array>((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject })
        send({ kind: 'embed', id, tokenIds })
      })
    } finally {
      this.#waiting.delete(id)
      context.signal.removeEventListener('abort', cancel)
    }
  }

  take({ embeddings = [], failures = [] }: StepMessage): void {
    for (const { id, vector } of embeddings) this.#waiting.get(id)?.resolve(vector)
    for (const { id, error } of failures) this.#waiting.get(id)?.reject(BatonError.fromValue(error))
  }

  close(error: BatonError): void {
    for (const waiting of this.#waiting.values()) waiting.reject(error)
  }
}
