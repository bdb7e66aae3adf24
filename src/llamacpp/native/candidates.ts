/**
 * The candidates of one draw in the form of llama.cpp's samplers: `llama_token_data_array`.
 *
 * One buffer for all draws of a thread. It is filled from a row of logits and passed to samplers, which reorder and
 * shorten it; then the rest is read back. It is checked before a token is used, because a sampler without candidates
 * crashes the process.
 */
import { ffi } from './ffi.ts'
import type { LlamaApi } from './llama-api.ts'
import type { Pointer } from './llama-structs.ts'

/** id: i32, logit: f32, p: f32. */
const ENTRY_WORDS = 3

export class Candidates {
  readonly #api: LlamaApi
  readonly #ids: Int32Array
  readonly #floats: Float32Array
  readonly #address: bigint
  /** data: pointer, size: u64, selected: i64, sorted: bool. */
  readonly #array = new Uint8Array(32)
  readonly #words = new BigInt64Array(this.#array.buffer)

  constructor(api: LlamaApi, vocabSize: number) {
    this.#api = api
    const memory = new ArrayBuffer(4 * ENTRY_WORDS * vocabSize)
    this.#ids = new Int32Array(memory)
    this.#floats = new Float32Array(memory)
    this.#address = ffi.address(new Uint8Array(memory))
  }

  fill(logits: Float32Array): void {
    const ids = this.#ids
    const floats = this.#floats
    for (let token = 0, at = 0; token < logits.length; token++, at += ENTRY_WORDS) {
      ids[at] = token
      floats[at + 1] = logits[token] ?? -Infinity
      floats[at + 2] = 0
    }
    this.#reset(logits.length)
  }

  apply(sampler: Pointer): void {
    this.#api.applySampler(sampler, this.#array)
  }

  /** The best remaining candidate; −1: none. With equal logits the lower index wins. */
  best(): number {
    const [ids, floats] = this.#left()
    const count = Number(this.#words[1])
    let best = -Infinity
    let token = -1
    for (let i = 0, at = 0; i < count; i++, at += ENTRY_WORDS) {
      const logit = floats[at + 1] ?? -Infinity
      if (logit > best) {
        best = logit
        token = ids[at] ?? -1
      }
    }
    return token
  }

  /** The token that the last sampler has drawn; −1: none is allowed. */
  drawn(): number {
    const selected = Number(this.#words[2])
    if (selected < 0 || selected >= Number(this.#words[1])) return -1
    const [ids, floats] = this.#left()
    const at = selected * ENTRY_WORDS
    return (floats[at + 1] ?? -Infinity) > -Infinity ? (ids[at] ?? -1) : -1
  }

  /** True when a sampler that forbids tokens allows this one. */
  isAllowed(sampler: Pointer, token: number): boolean {
    this.#ids[0] = token
    this.#floats[1] = 0
    this.#floats[2] = 0
    this.#reset(1)
    this.apply(sampler)
    return (this.#floats[1] ?? -Infinity) > -Infinity
  }

  #reset(count: number): void {
    this.#words[0] = BigInt.asIntN(64, this.#address)
    this.#words[1] = BigInt(count)
    this.#words[2] = -1n
    this.#words[3] = 0n
  }

  /** A sampler may have replaced the buffer by another one. */
  #left(): readonly [Int32Array, Float32Array] {
    const address = BigInt.asUintN(64, this.#words[0] ?? 0n)
    if (address === this.#address) return [this.#ids, this.#floats]
    const memory = ffi.view(address, 4 * ENTRY_WORDS * Number(this.#words[1]))
    return [new Int32Array(memory), new Float32Array(memory)]
  }
}
