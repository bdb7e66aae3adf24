/**
 * Keeps the books of one answer: pieces as a server gives them to chunks as the contract wants them.
 *
 * Owns: that a token which ends the output is not part of it, that no more tokens come than were asked for, and that
 * usage counts what was given on, whatever the server counted.
 */
import { BatonError } from '../base/index.ts'
import { finishChunk, hasStopTexts, usageOf } from '../request/index.ts'
import type { Chunk, FinishReason, GenerateRequest, Usage } from '../request/index.ts'
import type { Piece } from './dialects/dialect.ts'
import type { AnswerChunk } from './remote-text/learned-stream.ts'

export class OutputBook {
  readonly #request: GenerateRequest
  readonly #ends: ReadonlySet<number>
  readonly #stops: ReadonlySet<number>
  readonly #tokensMax: number
  readonly #tokensMin: number
  #count = 0
  #cachedTokens: number | undefined
  /** What the server says; of a text only it knows how many tokens it stands for. */
  #serverPromptTokens: number | undefined
  #serverTokens: number | undefined
  #hasText = false
  #isTextCut = false
  #finish: Omit<Chunk, 'tokenIds'> | null = null
  #prefillResult: Chunk['prefillResult']
  #kvMoved: boolean | undefined

  constructor(request: GenerateRequest) {
    const { stop, eosTokenIds, resumedTokens = 0 } = request
    this.#request = request
    this.#ends = new Set(stop.ignoreEos === true ? [] : eosTokenIds)
    this.#stops = new Set(stop.stopTokenIds ?? [])
    this.#tokensMax = stop.maxTokens ?? Infinity
    this.#tokensMin = Math.max(0, (stop.minTokens ?? 0) - resumedTokens)
  }

  get tokenCount(): number {
    return this.#count
  }

  /** The end is known; only what comes beside it (usage) may still come. */
  get hasFinish(): boolean {
    return this.#finish !== null
  }

  /** The server has gone beyond the limit: it need not go on. */
  get isTextCut(): boolean {
    return this.#isTextCut
  }

  /** Cached prompt tokens that the server told; undefined: it did not. */
  get cachedTokens(): number | undefined {
    return this.#cachedTokens
  }

  get kvMoved(): boolean | undefined {
    return this.#kvMoved
  }

  /** What goes on to the reader now; null: nothing. Throws the error that the piece tells of. */
  take(piece: Piece): AnswerChunk | null {
    if (piece.cachedTokens !== undefined) this.#cachedTokens = piece.cachedTokens
    if (piece.promptTokens !== undefined) this.#serverPromptTokens = piece.promptTokens
    if (piece.completionTokens !== undefined) this.#serverTokens = piece.completionTokens
    if (piece.prefillResult !== undefined) this.#prefillResult = piece.prefillResult
    if (piece.kvMoved !== undefined) this.#kvMoved = piece.kvMoved
    if (piece.error !== undefined) throw piece.error
    if (this.#finish !== null) return null
    const chunk = piece.text === undefined ? this.#tokensOf(piece) : this.#textOf(piece.text)
    if (this.#hasText && (piece.completionTokens ?? 0) > this.#tokensMax) this.#cutText()
    if (this.#finish === null && piece.finish !== undefined) {
      const { stopReason } = piece
      this.#finish = {
        finish: this.#finishOf(piece.finish, stopReason),
        ...(stopReason === undefined ? {} : { stopReason }),
      }
    }
    return chunk
  }

  /** The terminal chunk. */
  end(): Chunk {
    if (this.#finish === null) throw new BatonError('runtime.internal', 'the answer has no end')
    return {
      tokenIds: [],
      ...this.#finish,
      usage: this.#usage(),
      ...(this.#prefillResult === undefined ? {} : { prefillResult: this.#prefillResult }),
    }
  }

  /** The terminal chunk of who wants no more; `taken`: tokens that the reader has got. */
  cancelled(taken: number): Chunk {
    return finishChunk('cancelled', { usage: this.#usage(taken) })
  }

  /** Each piece counts for one token until the server tells more: more pieces than tokens were asked for are too many. */
  #textOf(text: string): Chunk | null {
    this.#hasText = true
    if (this.#count === this.#tokensMax) {
      this.#cutText()
      return null
    }
    this.#count += 1
    return { tokenIds: [], text }
  }

  #cutText(): void {
    this.#isTextCut = true
    this.#finish ??= { finish: 'length' }
  }

  #tokensOf({ tokenIds, logprobs, lost }: Piece): AnswerChunk | null {
    let kept = 0
    for (const id of tokenIds) {
      if (this.#endsWith(id)) break
      if (this.#count === this.#tokensMax) {
        this.#finish = { finish: 'length' }
        break
      }
      kept += 1
      this.#count += 1
    }
    if (kept === 0) return null
    const isFirst = kept === this.#count
    const wantsUsage = isFirst && hasStopTexts(this.#request.stop)
    return {
      tokenIds: kept === tokenIds.length ? tokenIds : tokenIds.slice(0, kept),
      ...(lost === undefined ? {} : { lost }),
      ...(logprobs === undefined ? {} : { logprobs: this.#logprobsOf(logprobs, kept) }),
      ...(wantsUsage ? { usage: this.#usage() } : {}),
    }
  }

  #logprobsOf(
    logprobs: NonNullable<Piece['logprobs']>,
    kept: number,
  ): NonNullable<Chunk['logprobs']> {
    const top = this.#request.output.logprobs ?? 0
    return logprobs
      .slice(0, kept)
      .map((entry) =>
        entry.top.length <= top ? entry : { ...entry, top: entry.top.slice(0, top) },
      )
  }

  #endsWith(id: number): boolean {
    if (this.#count < this.#tokensMin) return false
    const isStop = this.#stops.has(id)
    if (!isStop && !this.#ends.has(id)) return false
    this.#finish = { finish: isStop ? 'stop' : 'eos', stopReason: id }
    return true
  }

  /** The model's own end without the token that was it: nothing else ends an answer here, as no stop text is sent. */
  #finishOf(
    finish: NonNullable<Piece['finish']>,
    reason: number | string | undefined,
  ): FinishReason {
    if (finish !== 'stop') return finish
    if (this.#hasText) return 'stop'
    return reason === undefined ? 'eos' : 'stop'
  }

  #usage(count = this.#count): Usage {
    const own = this.#request.tokenIds.length
    const promptTokens = this.#hasText ? (this.#serverPromptTokens ?? own) : own
    const cached = this.#cachedTokens
    return usageOf(
      promptTokens,
      this.#completionTokens(count),
      cached === undefined ? undefined : Math.min(cached, promptTokens),
    )
  }

  /** Of a text only the server knows, unless it was cut here. */
  #completionTokens(count: number): number {
    if (!this.#hasText) return count
    return this.#isTextCut ? this.#tokensMax : (this.#serverTokens ?? count)
  }
}
