/** A llama.cpp context for embeddings, with one sequence at a time. */
import { BatonError } from '../../base/index.ts'
import { ffi } from './ffi.ts'
import type { LlamaApi } from './llama-api.ts'
import type { Pointer } from './llama-structs.ts'
import { TokenBatch } from './token-batch.ts'

interface EmbeddingOptions {
  readonly contextLength: number
  readonly prefillChunk: number
  readonly flashAttention: boolean
  readonly threads: number
}

/** llama.cpp's number for no pooling: an embedding of each token. */
const POOLING_NONE = 0

export class EmbeddingContext {
  readonly #api: LlamaApi
  readonly #context: Pointer
  readonly #batch: TokenBatch
  readonly #length: number

  /** Throws `capacity.exhausted` when there is not enough memory. */
  constructor(api: LlamaApi, model: Pointer, options: EmbeddingOptions) {
    const { contextLength, prefillChunk, flashAttention, threads } = options
    this.#api = api
    const params = api.contextDefaults()
    params.n_ctx = contextLength
    params.n_batch = prefillChunk
    params.n_ubatch = prefillChunk
    params.n_outputs_max_per_seq = 0
    params.n_threads = threads
    params.n_threads_batch = threads
    params.flash_attn_type = flashAttention ? 1 : 0
    params.embeddings = true
    this.#context = api.createContext(model, params)
    if (this.#context === null) {
      throw new BatonError(
        'capacity.exhausted',
        `not enough memory for embeddings of ${contextLength} tokens: use a smaller context`,
      )
    }
    this.#batch = new TokenBatch(api, prefillChunk)
    this.#length = api.embeddingLength(model)
  }

  /** Computes a piece of a text at its position; `isLast`: its last token gets an embedding. */
  compute(piece: Uint32Array, position: number, isLast: boolean): void {
    this.#batch.clear()
    for (const [i, token] of piece.entries()) {
      this.#batch.add(token, position + i, 0, isLast && i === piece.length - 1)
    }
    const code = this.#api.decode(this.#context, this.#batch.native)
    if (code !== 0)
      throw new BatonError(
        'backend.unknown',
        `llama.cpp failed to compute an embedding (code ${code})`,
      )
  }

  /** The embedding of the text whose last piece was just computed, normalised to length 1. */
  vector(): Float32Array {
    const isPooled = this.#api.poolingOf(this.#context) !== POOLING_NONE
    const at = isPooled
      ? this.#api.embeddingOfSequence(this.#context, 0)
      : this.#api.embeddingAt(this.#context, -1)
    if (at === null) throw new BatonError('backend.unknown', 'llama.cpp returned no embedding')
    return unitVector(new Float32Array(ffi.view(at, 4 * this.#length)))
  }

  clear(): void {
    this.#api.removeCells(this.#api.memoryOf(this.#context), 0, -1, -1)
  }

  close(): void {
    this.#batch.close()
    this.#api.freeContext(this.#context)
  }
}

function unitVector(values: Float32Array): Float32Array {
  let squares = 0
  for (const value of values) squares += value * value
  const scale = squares === 0 ? 0 : 1 / Math.sqrt(squares)
  return values.map((value) => value * scale)
}
