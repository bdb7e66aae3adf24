/**
 * The chunks of one answer on their way to the detokenizer with a remote tokenizer: it delays each token until its
 * bytes are known.
 *
 * Tokens that form a character only together are delayed together; at the end of an answer nothing is delayed any
 * more.
 */
import { usageOf } from '../../request/index.ts'
import type { Chunk, TokenLogprobs } from '../../request/index.ts'
import type { LostText } from '../dialects/dialect.ts'
import type { RemoteTokenizer } from './remote-tokenizer.ts'

/** A character has at most four bytes, and a token at least one. */
const HELD_MAX = 8

export type AnswerChunk = Chunk & {
  /** Tokens before these that the server did not report. */
  readonly lost?: LostText
}

export class LearnedStream {
  readonly #tokenizer: RemoteTokenizer
  readonly #tokensMax: number
  readonly #learns: boolean
  #held: number[] = []
  #heldLogprobs: TokenLogprobs[] = []
  #count = 0

  /** `learns`: false where only ids are passed on and the receiver learns their bytes. */
  constructor(tokenizer: RemoteTokenizer, tokensMax: number, learns = true) {
    this.#tokenizer = tokenizer
    this.#tokensMax = tokensMax
    this.#learns = learns
  }

  /**
   * True when the chunk can be passed on at once: nothing is delayed and every token is known. It is counted then.
   */
  passes({ finish, tokenIds, logprobs, usage }: AnswerChunk): boolean {
    const isPlain = finish === undefined && logprobs === undefined && usage === undefined
    if (!isPlain || this.#held.length > 0) return false
    if (this.#count + tokenIds.length > this.#tokensMax) return false
    if (!tokenIds.every((id) => this.#tokenizer.isKnown(id))) return false
    this.#count += tokenIds.length
    return true
  }

  /** Null: the chunk is delayed until the next one. */
  async take({ lost, ...chunk }: AnswerChunk): Promise<Chunk | null> {
    // A reader that has stopped reading gets no more.
    if (chunk.finish === 'cancelled') return this.#counted(chunk)
    const isLast = chunk.finish !== undefined
    const { tokenIds, logprobs } = await this.#whole(chunk, lost)
    const ids = [...this.#held, ...tokenIds]
    const entries = [...this.#heldLogprobs, ...logprobs]
    const kept = this.#learns ? await this.#learnedOf(ids, entries, isLast) : ids.length
    this.#held = ids.slice(kept)
    this.#heldLogprobs = entries.slice(kept)
    const passing = ids.slice(0, Math.min(kept, this.#tokensMax - this.#count))
    this.#count += passing.length
    if (!isLast && passing.length === 0 && tokenIds.length > 0) return null
    return this.#counted({
      ...chunk,
      tokenIds: passing,
      ...(chunk.logprobs === undefined ? {} : { logprobs: entries.slice(0, passing.length) }),
    })
  }

  #counted(chunk: Chunk): Chunk {
    const { usage } = chunk
    if (usage === undefined) return chunk
    return { ...chunk, usage: usageOf(usage.promptTokens, this.#count, usage.cachedTokens) }
  }

  /** Adds what the server did not report: its text in the server's own tokens. */
  async #whole(
    { tokenIds, logprobs = [] }: Chunk,
    lost: LostText | undefined,
  ): Promise<{ tokenIds: readonly number[]; logprobs: readonly TokenLogprobs[] }> {
    if (lost === undefined) return { tokenIds, logprobs }
    const ids = [...(await this.#tokenizer.encodeThere(lost.text, { special: false }))]
    const unknown = (tokenId: number): TokenLogprobs => ({ tokenId, logprob: -Infinity, top: [] })
    return { tokenIds: ids, logprobs: logprobs.length === 0 ? [] : ids.map(unknown) }
  }

  /** Learns the bytes of the tokens; returns how many of them can be decoded now. */
  async #learnedOf(
    ids: readonly number[],
    entries: readonly TokenLogprobs[],
    isLast: boolean,
  ): Promise<number> {
    const rivals = entries.flatMap(({ top }) => top.map(({ tokenId }) => tokenId))
    await this.#tokenizer.learn([...ids, ...rivals])
    return await this.#readyOf(ids, isLast)
  }

  async #readyOf(ids: readonly number[], isLast: boolean): Promise<number> {
    const first = ids.findIndex((id) => !this.#tokenizer.isKnown(id))
    if (first < 0) return ids.length
    const together = await this.#tokenizer.learnTogether(ids.slice(first))
    return together || isLast || ids.length - first >= HELD_MAX ? ids.length : first
  }
}
