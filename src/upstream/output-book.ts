/**
 * Keeps the account of one answer: converts pieces of a server to chunks of the engine contract.
 *
 * Owns: a token that ends the output is not part of it, no more tokens are passed on than requested, and usage
 * counts what was passed on, whatever the server counted.
 */
import { BatonError } from '../base/index.ts'
import { finishChunk, hasStopTexts, usageOf } from '../request/index.ts'
import type { Chunk, FinishReason, GenerateRequest, Usage } from '../request/index.ts'
import type { Piece } from './dialects/dialect.ts'
import { unknownId } from './dialects/output-ids.ts'
import type { AnswerChunk } from './remote-text/learned-stream.ts'

const HALF_AT_END = /[\ud800-\udbff]$/

export class OutputBook {
  readonly #request: GenerateRequest
  readonly #ends: ReadonlySet<number>
  readonly #stops: ReadonlySet<number>
  readonly #tokensMax: number
  readonly #tokensMin: number
  readonly #vocabSize: number
  #count = 0
  #cachedTokens: number | undefined
  /** As the server reports it; for text only the server knows the number of tokens. */
  #serverPromptTokens: number | undefined
  #serverTokens: number | undefined
  #hasText = false
  #isTextCut = false
  /** The first half of a surrogate pair whose second half is in the next piece. */
  #half = ''
  #finish: Omit<Chunk, 'tokenIds'> | null = null
  #prefillResult: Chunk['prefillResult']
  #kvMoved: boolean | undefined

  /** `vocabSize`: ids from it on do not exist; Infinity: not known. */
  constructor(request: GenerateRequest, vocabSize = Infinity) {
    const { stop, eosTokenIds, resumedTokens = 0 } = request
    this.#request = request
    this.#vocabSize = vocabSize
    this.#ends = new Set(stop.ignoreEos === true ? [] : eosTokenIds)
    this.#stops = new Set(stop.stopTokenIds ?? [])
    this.#tokensMax = stop.maxTokens ?? Infinity
    this.#tokensMin = Math.max(0, (stop.minTokens ?? 0) - resumedTokens)
  }

  get tokenCount(): number {
    return this.#count
  }

  /** The end is known; only usage may still follow. */
  get hasFinish(): boolean {
    return this.#finish !== null
  }

  /** The server has exceeded the limit and need not continue. */
  get isTextCut(): boolean {
    return this.#isTextCut
  }

  /** Cached prompt tokens that the server reported; undefined: it reported none. */
  get cachedTokens(): number | undefined {
    return this.#cachedTokens
  }

  get kvMoved(): boolean | undefined {
    return this.#kvMoved
  }

  /** The chunk to pass on now; null: none. Throws the error that the piece reports. */
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

  /** The terminal chunk for a reader that wants no more; `taken`: number of tokens that it has received. */
  cancelled(taken: number): Chunk {
    return finishChunk('cancelled', { usage: this.#usage(taken) })
  }

  /**
   * Each piece counts as one token until the server reports a number, so that an answer with more pieces than
   * requested tokens is cut.
   */
  #textOf(text: string): Chunk | null {
    this.#hasText = true
    if (this.#count === this.#tokensMax) {
      this.#cutText()
      return null
    }
    this.#count += 1
    const whole = this.#half + text
    // Servers that cut UTF-16 strings send the halves of a character in two pieces.
    const isCut = HALF_AT_END.test(whole)
    this.#half = isCut ? whole.slice(-1) : ''
    const kept = isCut ? whole.slice(0, -1) : whole
    return kept === '' ? null : { tokenIds: [], text: kept }
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
      if (id >= this.#vocabSize) throw unknownId(id, this.#vocabSize)
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

  /**
   * The model's own end, without the token that caused it: nothing else ends an answer here, because no stop strings
   * are sent.
   */
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

  /** For text only the server knows the number, unless the text was cut here or the server counts more than asked. */
  #completionTokens(count: number): number {
    if (!this.#hasText) return count
    return this.#isTextCut
      ? this.#tokensMax
      : Math.min(this.#serverTokens ?? count, this.#tokensMax)
  }
}
