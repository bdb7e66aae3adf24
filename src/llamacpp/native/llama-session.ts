/**
 * One model and one context of llama.cpp with several sequences, and the shapes in which tokens are computed.
 *
 * Exact batching is implemented here. A bit-by-bit comparison of KV and logits (docs/decisions/exact-hand-over.md) shows:
 * on a CPU every row of a batch is computed independently, but attention uses one code path for 64 or more tokens of a
 * sequence and another one for fewer, and with several threads yet another one for a single token over a long context.
 * Therefore a prompt is computed in batches of at least `EXACT_TOKENS_MIN` tokens of one sequence, filled up with dummy
 * tokens after the end, which earlier tokens cannot attend to and which are dropped again; and a sequence that decodes
 * alone gets a dummy companion.
 */
import { BatonError } from '../../base/index.ts'
import { ffi } from './ffi.ts'
import type { LlamaApi } from './llama-api.ts'
import type { Pointer } from './llama-structs.ts'
import { TokenBatch } from './token-batch.ts'

/** The smallest number of tokens for which llama.cpp's CPU attention uses its code path for many tokens. */
export const EXACT_TOKENS_MIN = 64
/** Attention processes cells in steps of this size; up to one step a single token takes the path of a batch. */
export const CELLS_STEP = 256
/** Most non-decoding sequences between two decoding ones that are filled up to keep them in one batch. */
const HOLE_MAX = 2

export interface SessionOptions {
  readonly sequences: number
  /** Most tokens of one sequence. */
  readonly contextLength: number
  readonly prefillChunk: number
  readonly microBatch: number
  readonly flashAttention: boolean
  readonly kvType: number
  readonly threads: number
  /** Compute in shapes whose bits do not depend on the other requests. */
  readonly isExact: boolean
  /** True when the cache can forget single tokens, so that some may be computed only to fill up a shape. */
  readonly dropsTokens: boolean
}

export interface DecodeItem {
  readonly sequence: number
  readonly position: number
  readonly token: number
  /** False: the token is only appended, nothing is sampled after it. */
  readonly wantsLogits: boolean
}

export class LlamaSession {
  readonly api: LlamaApi
  readonly vocab: Pointer
  readonly vocabSize: number
  readonly #context: Pointer
  readonly #memory: Pointer
  readonly #options: SessionOptions
  readonly #sequenceMax: number
  readonly #batch: TokenBatch
  readonly #threadPool: Pointer
  readonly #fillers: { readonly sequence: number; readonly position: number }[] = []
  /** A sequence that decodes alone gets a dummy companion, so that it is computed as it would be among others. */
  readonly #pairsLone: boolean
  #logitsAt: Pointer = null
  #logits = new Float32Array(0)
  #stateMemory = new Uint8Array(0)

  /** Throws `model.load_failed` when there is not enough memory. */
  constructor(api: LlamaApi, model: Pointer, options: SessionOptions) {
    this.api = api
    this.#options = options
    this.vocab = api.vocabOf(model)
    this.vocabSize = api.vocabSize(this.vocab)
    this.#pairsLone = options.isExact && options.threads > 1
    // The companion of the only sequence needs a slot.
    this.#sequenceMax = this.#pairsLone ? Math.max(2, options.sequences) : options.sequences
    this.#context = this.#open(model)
    this.#memory = api.memoryOf(this.#context)
    this.#batch = new TokenBatch(api, this.#batchMax)
    this.#threadPool = this.#attachThreads()
  }

  get #batchMax(): number {
    return Math.max(this.#microBatch + EXACT_TOKENS_MIN, this.#sequenceMax)
  }

  get #microBatch(): number {
    return Math.max(
      EXACT_TOKENS_MIN,
      Math.min(this.#options.prefillChunk, this.#options.microBatch),
    )
  }

  #open(model: Pointer): Pointer {
    const { sequences, contextLength, threads, flashAttention, kvType } = this.#options
    const cells = Math.ceil((contextLength + EXACT_TOKENS_MIN) / CELLS_STEP) * CELLS_STEP
    const params = this.api.contextDefaults()
    params.n_ctx = cells * this.#sequenceMax
    params.n_seq_max = this.#sequenceMax
    params.n_batch = this.#batchMax
    // llama.cpp must not split a batch itself: the remainder could be too short for an exact shape.
    params.n_ubatch = this.#batchMax
    params.n_outputs_max_per_seq = 0
    params.n_threads = threads
    params.n_threads_batch = threads
    params.flash_attn_type = flashAttention ? 1 : 0
    params.type_k = kvType
    params.type_v = kvType
    const context = this.api.createContext(model, params)
    if (context !== null) return context
    throw new BatonError(
      'model.load_failed',
      `not enough memory for ${sequences} sequences of ${contextLength} tokens: use fewer sequences or a smaller context`,
    )
  }

  /** Without a thread pool llama.cpp starts and ends its threads at every step. */
  #attachThreads(): Pointer {
    const { threadPool } = this.api
    if (threadPool === null || this.#options.threads === 1) return null
    const pool = threadPool.create(threadPoolParams(this.#options.threads))
    if (pool !== null) this.api.attachThreads(this.#context, pool, pool)
    return pool
  }

  /** Number of tokens for the next prefill call, of `left` that are still to compute. */
  chunkLength(left: number): number {
    const { prefillChunk } = this.#options
    return left < prefillChunk + EXACT_TOKENS_MIN ? left : prefillChunk
  }

  /** Computes `tokens` at `position` of a sequence that contains exactly the tokens before it. */
  prefill(sequence: number, position: number, tokens: Uint32Array): void {
    for (let at = 0; at < tokens.length;) {
      const left = tokens.length - at
      const count = left < this.#microBatch + EXACT_TOKENS_MIN ? left : this.#microBatch
      this.#prefillPiece(sequence, position + at, tokens.subarray(at, at + count), false)
      at += count
    }
  }

  /** The same for a piece of less than twice `EXACT_TOKENS_MIN`, with a row of `logits` for every token. */
  prefillWithLogits(sequence: number, position: number, tokens: Uint32Array): void {
    this.#prefillPiece(sequence, position, tokens, true)
  }

  #prefillPiece(
    sequence: number,
    position: number,
    tokens: Uint32Array,
    wantsLogits: boolean,
  ): void {
    const isFilled = this.#options.isExact && tokens.length < EXACT_TOKENS_MIN
    const count = isFilled ? EXACT_TOKENS_MIN : tokens.length
    const batch = this.#batch
    batch.clear()
    for (let i = 0; i < count; i++) {
      const isOwn = i < tokens.length
      const token = (isOwn ? tokens[i] : tokens[0]) ?? 0
      batch.add(token, position + i, sequence, wantsLogits && isOwn)
    }
    this.#decode(wantsLogits ? tokens.length : 0)
    if (isFilled) this.dropFrom(sequence, position + tokens.length)
  }

  /**
   * One token of each of several sequences, ordered by sequence. The rows of `logits` are those of the items that
   * want them, in order.
   */
  decode(items: readonly DecodeItem[]): void {
    this.#batch.clear()
    this.#fillers.length = 0
    let rows = 0
    for (let at = 0; at < items.length;) {
      const end = this.#groupEnd(items, at)
      this.#addGroup(items, at, end)
      for (; at < end; at++) if (items[at]?.wantsLogits === true) rows++
    }
    this.#decode(rows)
    for (const { sequence, position } of this.#fillers) this.dropFrom(sequence, position)
  }

  /**
   * llama.cpp batches only sequences with consecutive numbers. A small gap between two of them is filled with a
   * token that is dropped again, which is cheaper than reading all weights once more.
   */
  #groupEnd(items: readonly DecodeItem[], from: number): number {
    let end = from + 1
    if (!this.#options.dropsTokens) return items.length
    for (; end < items.length; end++) {
      const hole = (items[end]?.sequence ?? 0) - (items[end - 1]?.sequence ?? 0) - 1
      if (hole > HOLE_MAX) break
    }
    return end
  }

  #addGroup(items: readonly DecodeItem[], from: number, end: number): void {
    const first = items[from]
    if (first === undefined) return
    const { sequence } = first
    const isLone = end - from === 1 && this.#pairsLone && first.position >= CELLS_STEP
    const isLastSequence = sequence === this.#sequenceMax - 1
    if (isLone && isLastSequence) this.#addFiller(sequence - 1)
    let next = sequence
    for (let i = from; i < end; i++) {
      const item = items[i]
      if (item === undefined) continue
      for (; this.#options.dropsTokens && next < item.sequence; next++) this.#addFiller(next)
      this.#batch.add(item.token, item.position, item.sequence, item.wantsLogits)
      next++
    }
    if (isLone && !isLastSequence) this.#addFiller(sequence + 1)
  }

  #addFiller(sequence: number): void {
    const position = this.api.sequenceEnd(this.#memory, sequence) + 1
    this.#batch.add(0, position, sequence, false)
    this.#fillers.push({ sequence, position })
  }

  /** The logits of the last step: `rows` times the vocabulary. Valid until the next step. */
  get logits(): Float32Array {
    return this.#logits
  }

  #decode(rows: number): void {
    const code = this.api.decode(this.#context, this.#batch.native)
    if (code !== 0) {
      throw new BatonError('backend.unknown', `llama.cpp failed to compute a step (code ${code})`)
    }
    if (rows === 0) return
    const at = this.api.logits(this.#context)
    const length = rows * this.vocabSize
    if (at === this.#logitsAt && length <= this.#logits.length) return
    this.#logitsAt = at
    this.#logits = new Float32Array(ffi.view(at, 4 * length))
  }

  /** The state of a sequence, in a buffer that the next call reuses. */
  saveState(sequence: number): Uint8Array {
    const size = Number(this.api.stateSize(this.#context, sequence))
    const memory = this.stateMemory(size)
    const written = Number(this.api.getState(this.#context, memory, size, sequence))
    return memory.subarray(0, written)
  }

  /** A buffer in which a state may be assembled. */
  stateMemory(size: number): Uint8Array {
    if (this.#stateMemory.length < size) {
      this.#stateMemory = new Uint8Array(new ArrayBuffer(Math.ceil(size * 1.25)))
    }
    return this.#stateMemory.subarray(0, size)
  }

  /**
   * Fills a sequence; false when llama.cpp refuses the state. Then the sequence is partly filled and must be
   * cleared.
   */
  loadState(sequence: number, state: Uint8Array): boolean {
    return Number(this.api.setState(this.#context, state, state.length, sequence)) > 0
  }

  dropFrom(sequence: number, position: number): void {
    this.api.removeCells(this.#memory, sequence, position, -1)
  }

  /** The remaining tokens keep their KV, but no further token can be computed. */
  dropBefore(sequence: number, position: number): void {
    this.api.removeCells(this.#memory, sequence, 0, position)
  }

  clearSequence(sequence: number): void {
    this.api.removeCells(this.#memory, sequence, -1, -1)
  }

  /** Number of sequences that a state names. */
  get streamCount(): number {
    return this.#sequenceMax
  }

  close(): void {
    this.#batch.close()
    this.api.freeContext(this.#context)
    if (this.#threadPool !== null) this.api.threadPool?.free(this.#threadPool)
  }
}

/** `ggml_threadpool_params`: a mask of 512 CPUs (none: all), threads, priority, polling, strict, paused. */
function threadPoolParams(threads: number): Uint8Array {
  const params = new Uint8Array(528)
  const view = new DataView(params.buffer)
  view.setInt32(512, threads, true)
  view.setUint32(520, POLLING, true)
  return params
}

/** llama.cpp's own default: busy-wait for a moment, then sleep. */
const POLLING = 50
