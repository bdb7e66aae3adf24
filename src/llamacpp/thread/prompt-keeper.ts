/**
 * Copies the KV of computed prompts from their slots to the requested blocks.
 *
 * For a prefill worker this is done in two parts: before the last piece of a prompt is computed, the blocks so far
 * are written and announced, so that the decode worker can pull them meanwhile; after the end only that piece is
 * left. llama.cpp can only return the state of a whole sequence, so the written part is removed from the sequence
 * before its last piece is read; the slot is freed afterwards anyway.
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

/**
 * The last piece has at least this share of a prompt: the longer the prompt, the longer the transfer of its blocks.
 */
const TAIL_SHARE = 1 / 16
/** A longer last piece is not announced ahead: a pull fails after 10 s without progress, and 500 ms is far below that. */
const TAIL_MS_MAX = 500

export class PromptKeeper {
  readonly #model: OpenModel
  readonly #options: PromptKeeperOptions
  /** Milliseconds per token of the last computed piece; unknown before the first. */
  #tokenMs: number | undefined

  constructor(model: OpenModel, options: PromptKeeperOptions) {
    this.#model = model
    this.#options = options
  }

  /** The slot contains the cached part of the prompt: determines where its last piece starts. */
  plan(sequence: Sequence): void {
    const { request, prefillTokens, computedTokens } = sequence
    const isWanted = this.#model.layout !== undefined && request.wanted.addresses.length > 0
    if (!isWanted || request.mode !== 'prefill' || request.promptLogprobs !== undefined) return
    const { prefillChunk, blockTokens } = this.#options
    const share = Math.min(prefillChunk, Math.floor(prefillTokens * TAIL_SHARE))
    const length = Math.max(EXACT_TOKENS_MIN, share)
    const from = Math.floor((prefillTokens - length) / blockTokens) * blockTokens
    // A piece before it that is too short for the exact shape would be filled up with useless tokens.
    const isShort = from - computedTokens < EXACT_TOKENS_MIN
    sequence.tailFrom = isShort ? computedTokens : from
  }

  /** Number of prompt tokens that the next step computes. */
  pieceLength({ tailFrom, computedTokens, prefillTokens }: Sequence): number {
    const isBefore = tailFrom !== undefined && computedTokens < tailFrom
    const end = isBefore ? tailFrom : prefillTokens
    return this.#model.session.chunkLength(end - computedTokens)
  }

  /** A piece of this many tokens was computed in this time. */
  note(tokens: number, elapsedMs: number): void {
    this.#tokenMs = elapsedMs / tokens
  }

  /**
   * True: only the last piece is left, the blocks so far were written, and must be announced before it is computed.
   */
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

  /** The prompt is computed; the slot is not needed any more. */
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
