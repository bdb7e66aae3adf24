/**
 * Embeddings by llama.cpp: what the model's last layer says at the last token of a text, brought to length 1.
 *
 * Owns: a context of its own beside the one that generates, opened by the first request and never shared with it, so
 * that neither disturbs the other's KV. Requests run one after the other; a prompt is computed piece by piece and can be
 * stopped between two pieces.
 */
import { BatonError } from '../../../base/index.ts'
import type { GenerateContext } from '../../../engine/index.ts'
import type { NativeBindings, NativeContext, NativeModel } from './bindings.ts'

interface EmbedderOptions {
  readonly contextLength: number
  readonly prefillChunk: number
  readonly flashAttention: boolean
  readonly threads: number
  readonly queueMax: number
}

const NONE = new Uint32Array(0)

export class Embedder {
  readonly #bindings: NativeBindings
  readonly #model: NativeModel
  readonly #options: EmbedderOptions
  #context: Promise<NativeContext> | null = null
  /** Settles when everything asked for so far has been done. */
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #closed = false

  constructor(bindings: NativeBindings, model: NativeModel, options: EmbedderOptions) {
    this.#bindings = bindings
    this.#model = model
    this.#options = options
  }

  /** Throws `capacity.worker_overloaded` when too many wait. A stopped request gives an empty vector. */
  async embed(tokenIds: Uint32Array, context: GenerateContext): Promise<Float32Array> {
    const { contextLength, queueMax } = this.#options
    if (tokenIds.length > contextLength) {
      throw new BatonError(
        'request.context_length_exceeded',
        `the text has ${tokenIds.length} tokens; the context holds ${contextLength}`,
      )
    }
    if (this.#waiting >= queueMax) {
      throw new BatonError('capacity.worker_overloaded', `${queueMax} embeddings wait already`)
    }
    this.#waiting++
    const turn = this.#last.then(() => this.#compute(tokenIds, context))
    this.#last = turn.catch(() => undefined)
    try {
      return await turn
    } finally {
      this.#waiting--
    }
  }

  /** Waits for the piece that is being computed. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#last
    const context = this.#context
    this.#context = null
    await (await context)?.dispose()
  }

  async #compute(tokenIds: Uint32Array, context: GenerateContext): Promise<Float32Array> {
    const native = await this.#opened()
    const { prefillChunk } = this.#options
    try {
      for (let from = 0; from < tokenIds.length; from += prefillChunk) {
        if (context.isStopped) return new Float32Array(0)
        if (this.#closed) throw shutDown()
        const piece = tokenIds.slice(from, from + prefillChunk)
        const isLast = from + prefillChunk >= tokenIds.length
        native.initBatch(piece.length)
        native.addToBatch(0, from, piece, isLast ? Uint32Array.of(piece.length - 1) : NONE)
        await native.decodeBatch()
      }
      return unitVector(native.getEmbedding(tokenIds.length))
    } finally {
      native.disposeSequence(0)
    }
  }

  #opened(): Promise<NativeContext> {
    if (this.#closed) throw shutDown()
    this.#context ??= this.#open().catch((error: unknown) => {
      this.#context = null
      throw error
    })
    return this.#context
  }

  async #open(): Promise<NativeContext> {
    const { contextLength, prefillChunk, flashAttention, threads } = this.#options
    const context = new this.#bindings.AddonContext(this.#model, {
      contextSize: contextLength,
      batchSize: prefillChunk,
      sequences: 1,
      flashAttention,
      threads,
      embeddings: true,
    })
    if (await context.init()) return context
    throw new BatonError(
      'capacity.exhausted',
      `no memory for embeddings of ${contextLength} tokens: use a smaller context`,
    )
  }
}

function shutDown(): BatonError {
  return new BatonError('backend.engine_shutdown', 'the engine is shutting down')
}

function unitVector(values: Float64Array): Float32Array {
  let squares = 0
  for (const value of values) squares += value * value
  const scale = squares === 0 ? 0 : 1 / Math.sqrt(squares)
  return Float32Array.from(values, (value) => value * scale)
}
