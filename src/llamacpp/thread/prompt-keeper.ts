/**
 * Takes the KV of computed prompts out of their slots, into the blocks that are wanted of them.
 *
 * For a prefill worker it does so in two parts: before the last piece of a prompt is computed, what there is so far is written and told,
 * so that the decode worker pulls it meanwhile; after the end only that piece is left. llama.cpp gives out the state of whole
 * sequences only, so the sequence forgets what was written before its last piece is asked for; the slot is given up then anyway.
 */
import { EXACT_TOKENS_MIN } from '../native/llama-session.ts'
import { parseState } from '../state/state-codec.ts'
import { writeBlocks } from './block-memory.ts'
import type { OpenModel } from './open-model.ts'
import type { Sequence } from './sequence.ts'
import type { StepNews } from './step-news.ts'

interface PromptKeeperOptions {
  readonly prefillChunk: number
  readonly blockTokens: number
  readonly news: StepNews
}

/** The last piece has at least this share of a prompt: the longer the prompt, the longer its blocks are on their way. */
const TAIL_SHARE = 1 / 16
/** A decode worker is not made to wait longer for a last piece; half of what a pull may stand still is 5 s. */
const TAIL_MS_MAX = 500

export class PromptKeeper {
  readonly #model: OpenModel
  readonly #options: PromptKeeperOptions
  /** Of the last piece that was computed: unknown before the first. */
  #tokenMs: number | undefined

  constructor(model: OpenModel, options: PromptKeeperOptions) {
    this.#model = model
    this.#options = options
  }

  /** The slot holds what was held of the prompt: decides where its last piece begins. */
  plan(sequence: Sequence): void {
    const { request, prefillTokens, computedTokens } = sequence
    const isWanted = this.#model.layout !== undefined && request.wanted.addresses.length > 0
    if (!isWanted || request.mode !== 'prefill' || request.promptLogprobs !== undefined) return
    const { prefillChunk, blockTokens } = this.#options
    const share = Math.min(prefillChunk, Math.floor(prefillTokens * TAIL_SHARE))
    const length = Math.max(EXACT_TOKENS_MIN, share)
    const from = Math.floor((prefillTokens - length) / blockTokens) * blockTokens
    // A piece before it that is too short for the exact shape would be filled up, and computed for nothing.
    const isShort = from - computedTokens < EXACT_TOKENS_MIN
    sequence.tailFrom = isShort ? computedTokens : from
  }

  /** Tokens that the next step computes of the prompt. */
  pieceLength({ tailFrom, computedTokens, prefillTokens }: Sequence): number {
    const isBefore = tailFrom !== undefined && computedTokens < tailFrom
    const end = isBefore ? tailFrom : prefillTokens
    return this.#model.session.chunkLength(end - computedTokens)
  }

  /** A piece of so many tokens was computed in this time. */
  note(tokens: number, elapsedMs: number): void {
    this.#tokenMs = elapsedMs / tokens
  }

  /** True: only the last piece is left, what there is so far has been written, and is to be told before that is computed. */
  goAhead(sequence: Sequence): boolean {
    const { tailFrom, computedTokens, prefillTokens, request } = sequence
    if (tailFrom !== computedTokens || sequence.isAhead) return false
    const count = Math.max(EXACT_TOKENS_MIN, prefillTokens - computedTokens)
    if (this.#tokenMs === undefined || this.#tokenMs * count > TAIL_MS_MAX) {
      sequence.tailFrom = undefined
      return false
    }
    sequence.isAhead = true
    const firstWanted = request.wanted.ranges[0] ?? computedTokens
    if (firstWanted < computedTokens) this.#write(sequence, 0)
    this.#options.news.ahead(request.id, computedTokens)
    return true
  }

  /** The prompt is computed, and the slot holds nothing more. */
  keep(sequence: Sequence): void {
    const { request, tailFrom, isAhead, slot } = sequence
    if (this.#model.layout === undefined || request.wanted.addresses.length === 0) return
    const from = isAhead ? (tailFrom ?? 0) : 0
    if (from > 0) this.#model.session.dropBefore(slot, from)
    this.#write(sequence, from)
    this.#options.news.kept(request.id)
  }

  #write({ request, slot }: Sequence, first: number): void {
    writeBlocks(request.wanted, parseState(this.#model.session.saveState(slot), first))
  }
}
