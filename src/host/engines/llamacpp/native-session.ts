/**
 * One model and one context of llama.cpp with several sequences, and the shapes in which tokens are computed.
 *
 * Exactness lives here. Found by comparing KV and logits bit by bit (docs/decisions/exact-hand-over.md): on a CPU
 * every row of a batch is computed on its own, but attention takes another path for 64 tokens and more of one
 * sequence than for fewer. So a prompt is always computed in batches of at least `EXACT_TOKENS_MIN` tokens of one
 * sequence, filled up with tokens after the end that are dropped again and that nothing before them can see.
 * Calls must not overlap; the step loop sees to that.
 */
import { BatonError } from '../../../base/index.ts'
import type { NativeBindings, NativeContext, NativeModel, NativeSampler } from './bindings.ts'
import { assembleState, parseState } from './state-codec.ts'
import type { ParsedState, StateBlock } from './state-codec.ts'
import { StateFolder } from './state-folder.ts'
import type { KvLayout } from './state-layout.ts'

/** The least number of tokens for which llama.cpp's CPU attention takes its path for many tokens. */
const EXACT_TOKENS_MIN = 64

interface NativeSessionOptions {
  readonly sequences: number
  /** Tokens that one sequence may hold. */
  readonly contextLength: number
  readonly prefillChunk: number
  readonly flashAttention: boolean
  readonly threads: number
  /** Fill prompts up to the exact shape. */
  readonly isExact: boolean
}

export interface DecodeItem {
  readonly sequence: number
  readonly position: number
  readonly token: number
  /** False: the token is only taken in, nothing is sampled after it. */
  readonly wantsLogits: boolean
}

const NONE = new Uint32Array(0)
const FIRST = Uint32Array.of(0)

export class NativeSession {
  readonly model: NativeModel
  readonly #bindings: NativeBindings
  readonly #context: NativeContext
  readonly #options: NativeSessionOptions
  readonly #folder = new StateFolder()
  #layout: KvLayout | undefined

  private constructor(
    bindings: NativeBindings,
    model: NativeModel,
    context: NativeContext,
    options: NativeSessionOptions,
  ) {
    this.#bindings = bindings
    this.model = model
    this.#context = context
    this.#options = options
  }

  /** Takes the model over: it goes with the session, also when that cannot be opened. */
  static async open(
    bindings: NativeBindings,
    model: NativeModel,
    options: NativeSessionOptions,
  ): Promise<NativeSession> {
    const { sequences, contextLength, prefillChunk, flashAttention, threads } = options
    const cells = Math.ceil((contextLength + EXACT_TOKENS_MIN) / 256) * 256
    const batchSize = Math.max(prefillChunk + EXACT_TOKENS_MIN, sequences)
    const contextSize = cells * sequences
    const context = new bindings.AddonContext(model, {
      contextSize,
      batchSize,
      sequences,
      flashAttention,
      threads,
    })
    if (!(await context.init())) {
      await model.dispose()
      throw new BatonError(
        'model.load_failed',
        `no memory for ${sequences} sequences of ${contextLength} tokens: use fewer sequences or a smaller context`,
      )
    }
    return new NativeSession(bindings, model, context, options)
  }

  /** undefined: the KV of this model cannot be cut into blocks. Known after `probeLayout`. */
  get layout(): KvLayout | undefined {
    return this.#layout
  }

  createSampler(): NativeSampler {
    return new this.#bindings.AddonSampler(this.model)
  }

  /** Computes one token and looks at its KV. Also the first, slow call that no request then has to wait for. */
  async probeLayout(token: number): Promise<void> {
    await this.decode([{ sequence: 0, position: 0, token, wantsLogits: true }])
    try {
      this.#layout = (await this.saveState(0)).layout
    } catch (error) {
      if (!(error instanceof BatonError)) throw error
    } finally {
      this.clearSequence(0)
    }
  }

  /** Tokens that the next prefill call may take of the `left` that are still to compute. */
  chunkLength(left: number): number {
    const { prefillChunk } = this.#options
    return left < prefillChunk + EXACT_TOKENS_MIN ? left : prefillChunk
  }

  /** Computes `tokens` at `position` of a sequence that holds exactly the tokens before it. */
  async prefill(sequence: number, position: number, tokens: Uint32Array): Promise<void> {
    const isFilled =
      this.#options.isExact && this.#layout !== undefined && tokens.length < EXACT_TOKENS_MIN
    const batch = isFilled ? new Uint32Array(EXACT_TOKENS_MIN).fill(tokens[0] ?? 0) : tokens
    if (isFilled) batch.set(tokens)
    this.#context.initBatch(batch.length)
    this.#context.addToBatch(sequence, position, batch, NONE)
    await this.#context.decodeBatch()
    if (isFilled) {
      this.dropFrom(sequence, position + tokens.length)
    }
  }

  /** One token of each of several sequences; returns where the logits of each are, in order (−1: not wanted). */
  async decode(items: readonly DecodeItem[]): Promise<number[]> {
    this.#context.initBatch(items.length)
    const indexes = items.map((item) => {
      const wanted = item.wantsLogits ? FIRST : NONE
      const token = Uint32Array.of(item.token)
      return this.#context.addToBatch(item.sequence, item.position, token, wanted)[0] ?? -1
    })
    await this.#context.decodeBatch()
    return indexes
  }

  get context(): NativeContext {
    return this.#context
  }

  async saveState(sequence: number): Promise<ParsedState> {
    const bytes = await this.#folder.collect((path) =>
      this.#context.saveSequenceStateToFile(path, sequence, NONE),
    )
    return parseState(bytes)
  }

  /** Fills an empty sequence with blocks of this session's own layout. */
  async loadBlocks(sequence: number, blocks: readonly StateBlock[]): Promise<void> {
    if (this.#layout === undefined) return
    const state = assembleState(this.#layout, blocks, this.#options.sequences, sequence)
    await this.#folder.offer(state, (path) =>
      this.#context.loadSequenceStateFromFile(path, sequence, 1),
    )
  }

  dropFrom(sequence: number, position: number): void {
    this.#context.removeTokenCellsFromSequence(sequence, position, -1)
  }

  clearSequence(sequence: number): void {
    this.#context.disposeSequence(sequence)
  }

  async close(): Promise<void> {
    await this.#context.dispose()
    await this.model.dispose()
    this.#folder.close()
  }
}
