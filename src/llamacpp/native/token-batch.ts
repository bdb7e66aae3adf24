/** The tokens of one step in llama.cpp's own memory, written through views. */
import { BatonError } from '../../base/index.ts'
import { ffi } from './ffi.ts'
import type { LlamaApi } from './llama-api.ts'
import type { Batch, Pointer } from './llama-structs.ts'

export class TokenBatch {
  readonly native: Batch
  readonly #api: LlamaApi
  readonly #tokens: Int32Array
  readonly #positions: Int32Array
  readonly #sequenceCounts: Int32Array
  readonly #sequences: readonly Int32Array[]
  readonly #wanted: Uint8Array

  constructor(api: LlamaApi, capacity: number) {
    this.#api = api
    this.native = api.createBatch(capacity, 0, 1)
    this.#tokens = new Int32Array(viewOf(this.native.token, 4 * capacity))
    this.#positions = new Int32Array(viewOf(this.native.pos, 4 * capacity))
    this.#sequenceCounts = new Int32Array(viewOf(this.native.n_seq_id, 4 * capacity)).fill(1)
    this.#wanted = new Uint8Array(viewOf(this.native.logits, capacity))
    const pointers = new BigUint64Array(viewOf(this.native.seq_id, 8 * capacity))
    this.#sequences = Array.from(pointers, (pointer) => new Int32Array(viewOf(pointer, 4)))
  }

  get size(): number {
    return this.native.n_tokens
  }

  clear(): void {
    this.native.n_tokens = 0
  }

  add(token: number, position: number, sequence: number, wantsLogits: boolean): void {
    const at = this.native.n_tokens++
    this.#tokens[at] = token
    this.#positions[at] = position
    this.#sequenceCounts[at] = 1
    const sequences = this.#sequences[at]
    if (sequences === undefined) throw new RangeError(`a batch has room for ${at} tokens`)
    sequences[0] = sequence
    this.#wanted[at] = wantsLogits ? 1 : 0
  }

  close(): void {
    this.#api.freeBatch(this.native)
  }
}

function viewOf(pointer: Pointer, bytes: number): ArrayBuffer {
  if (pointer === null) throw new BatonError('model.load_failed', 'not enough memory for a batch')
  return ffi.view(pointer, bytes)
}
