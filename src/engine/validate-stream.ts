/**
 * Checks that a stream of an engine follows the contract, and names the rule that is violated.
 *
 * `StreamValidator` is the form without I/O (one call per item); `validateStream` wraps an iterable. A violation is
 * thrown as `backend.contract_violation` with the rule in `data.rule`; a stream that ends without a terminal item as
 * `backend.stream_incomplete`; an untyped error of the engine becomes `backend.unknown`.
 */
import { BatonError } from '../base/index.ts'
import type { ErrorCode } from '../base/index.ts'
import type { Chunk, FinishReason, GenerateRequest, Usage } from '../request/index.ts'
import { CHUNK_RULES, chunkFault } from './check-chunk.ts'
import { chunkOf } from './engine-chunk.ts'
import type { EngineChunk } from './engine-chunk.ts'
import type { GenerateContext } from './generate-context.ts'
import { PromptScores } from './prompt-scores.ts'
import { TextHalves } from './text-halves.ts'
import { UsageCount } from './usage-count.ts'

export const STREAM_RULES = {
  ...CHUNK_RULES,
  'item-after-terminal': 'Nothing may follow a terminal item.',
  'missing-terminal': 'The stream must end with a chunk that has `finish`, or with an error.',
  'error-untyped': 'An error that ends the stream must be a BatonError.',
  'tokens-over-max': 'A stream must not have more tokens than `maxTokens`.',
  'text-over-max':
    'A stream must not have more than 1,024 characters of text per token of `maxTokens`.',
  'items-empty':
    'No more than 10,000 items in a row, and one per token of the prompt, may have neither tokens nor text.',
  'usage-mismatch':
    '`usage.completionTokens` of every chunk must be the number of tokens streamed so far; in a stream with text it must never decrease and never be more than `maxTokens`.',
  'usage-total-mismatch': '`usage.totalTokens` must be the sum of prompt and completion tokens.',
  'usage-prompt-mismatch':
    '`usage.promptTokens` must be the number of prompt tokens, unless the stream has text, even an empty one, or was stopped before its first token.',
  'logprobs-missing':
    'If log-probabilities were requested, every token must have them; those of the prompt must come before the first token.',
  'tokens-after-cancel':
    'An item that is requested after the stop must have no tokens and must end the stream.',
  'cancel-ignored': 'A stopped stream must end with `cancelled`.',
  'cancelled-unasked': 'Only a stopped stream may end with `cancelled` or `request.cancelled`.',
} as const

export type StreamRule = keyof typeof STREAM_RULES

/** Longer than any token of a vocabulary. */
const TEXT_PER_TOKEN_MAX = 1024

/** A generator that yields nothing for ever, without a pause, would stop the whole process. */
const EMPTY_ITEMS_MAX = 10_000

export interface ValidateOptions {
  /** Enables the rules that need the request. */
  readonly request?: GenerateRequest
  /** Enables the rules that need the stop signal. */
  readonly context?: GenerateContext
}

/** Rules with another code than `backend.contract_violation`: the request can continue on another worker. */
const CODES: Partial<Record<StreamRule, ErrorCode>> = {
  'missing-terminal': 'backend.stream_incomplete',
  'cancelled-unasked': 'backend.cancelled',
}

function violation(rule: StreamRule, detail: string): BatonError {
  return new BatonError(
    CODES[rule] ?? 'backend.contract_violation',
    `the engine violated the stream contract (${rule}): ${detail}`,
    {
      data: { rule },
    },
  )
}

/** The rule named by an error of the validator, or null. */
export function brokenStreamRule(error: unknown): StreamRule | null {
  const { rule } = BatonError.from(error).data
  return typeof rule === 'string' && Object.hasOwn(STREAM_RULES, rule) ? (rule as StreamRule) : null
}

export class StreamValidator {
  readonly #maxTokens: number
  readonly #promptTokens: number | undefined
  readonly #emptyMax: number
  readonly #wantsLogprobs: boolean
  readonly #context: GenerateContext | undefined
  readonly #scores: PromptScores | null
  #tokenCount = 0
  /** Items in a row that brought nothing. */
  #emptyCount = 0
  #textLength = 0
  /** Items with an empty text, and without ids: the answer of an engine without ids may be empty. */
  #hasEmptyText = false
  readonly #halves = new TextHalves()
  readonly #usage: UsageCount
  #hasEnded = false
  #wasStopped = false

  constructor(options: ValidateOptions = {}) {
    this.#maxTokens = options.request?.stop.maxTokens ?? Infinity
    this.#promptTokens = options.request?.tokenIds.length
    this.#emptyMax = EMPTY_ITEMS_MAX + (this.#promptTokens ?? 0)
    this.#wantsLogprobs = options.request?.output.logprobs !== undefined
    this.#context = options.context
    this.#usage = new UsageCount(options.request)
    this.#scores = options.request === undefined ? null : new PromptScores(options.request)
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Call before requesting each item: an item requested before the stop may still have tokens. */
  pull(): void {
    this.#wasStopped = this.#context?.isStopped ?? false
  }

  /** Validates and converts a chunk. Throws if it violates a rule. */
  chunk(item: EngineChunk): Chunk {
    if (this.#hasEnded) throw violation('item-after-terminal', 'a chunk came after the end')
    try {
      const chunk = chunkOf(item)
      if (chunk === null) throw violation('chunk-malformed', 'the item has neither ids nor text')
      this.#check(chunk)
      return this.#halves.whole(chunk)
    } catch (thrown) {
      if (brokenStreamRule(thrown) !== null) throw thrown
      // A getter, a proxy, or a value that cannot be converted to text.
      const { message } = BatonError.from(thrown)
      throw violation('chunk-malformed', `the item cannot be read: ${message}`)
    }
  }

  #check(chunk: Chunk): void {
    const fault = chunkFault(chunk)
    if (fault !== null) throw violation(fault.rule, fault.detail)
    const { tokenIds, text, finish } = chunk
    if (text !== undefined && text !== '') this.#countText(text)
    else if (text === '' && tokenIds.length === 0) this.#hasEmptyText = true
    this.#tokenCount += tokenIds.length
    this.#emptyCount = tokenIds.length > 0 || text ? 0 : this.#emptyCount + 1
    if (this.#emptyCount > this.#emptyMax)
      throw violation('items-empty', `${this.#emptyCount} items in a row brought nothing`)
    if (this.#tokenCount > this.#maxTokens)
      throw violation('tokens-over-max', `${this.#tokenCount} tokens, asked ${this.#maxTokens}`)
    if (tokenIds.length > 0 && this.#wantsLogprobs && chunk.logprobs === undefined)
      throw violation('logprobs-missing', 'a chunk without logprobs')
    if (this.#scores !== null && (chunk.promptLogprobs !== undefined || this.#scores.isAwaited))
      this.#checkScores(this.#scores, chunk)
    if (this.#wasStopped) this.#checkStopped(chunk)
    if (chunk.prefillResult !== undefined) this.#checkCached(chunk)
    if (finish !== undefined) this.#checkFinish(finish)
    if (chunk.usage !== undefined) this.#checkUsage(chunk.usage, finish)
  }

  #checkFinish(finish: FinishReason): void {
    this.#hasEnded = true
    if (finish === 'cancelled' && this.#context?.isStopped === false)
      throw violation('cancelled-unasked', 'the request was not stopped')
  }

  /** Only the engine knows how many tokens a text is. */
  #countText(text: string): void {
    this.#textLength += text.length
    if (this.#textLength > TEXT_PER_TOKEN_MAX * this.#maxTokens)
      throw violation(
        'text-over-max',
        `${this.#textLength} characters, asked ${this.#maxTokens} tokens`,
      )
  }

  get #hasText(): boolean {
    return this.#textLength > 0
  }

  /** For an error thrown by the engine: the typed error to pass on. It is terminal. */
  failure(thrown: unknown): BatonError {
    if (this.#hasEnded) return violation('item-after-terminal', 'an error came after the end')
    this.#hasEnded = true
    return this.#context?.isStopped === false
      ? StreamValidator.unstopped(thrown)
      : BatonError.from(thrown, 'backend.unknown')
  }

  /**
   * The typed error of what an engine threw for a request that was not stopped: `request.cancelled` would say that the
   * client has left.
   */
  static unstopped(thrown: unknown): BatonError {
    const error = BatonError.from(thrown, 'backend.unknown')
    if (error.code !== 'request.cancelled') return error
    return violation('cancelled-unasked', `request.cancelled was thrown: ${error.message}`)
  }

  /** The iterator has finished. Throws if there was no terminal item. */
  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    throw violation('missing-terminal', `the stream ended after ${this.#tokenCount} tokens`)
  }

  #checkScores(scores: PromptScores, { promptLogprobs, tokenIds, finish }: Chunk): void {
    const wrong = promptLogprobs === undefined ? null : scores.take(promptLogprobs)
    if (wrong !== null) throw violation('prompt-logprobs-invalid', wrong)
    const isDue = tokenIds.length > 0 || (finish !== undefined && finish !== 'cancelled')
    if (isDue && scores.isAwaited && !this.#hasText)
      throw violation('logprobs-missing', `of prompt tokens from ${scores.next} on`)
  }

  /** With text the engine counts its own prompt tokens. */
  #checkCached({ prefillResult, usage }: Chunk): void {
    const cached = prefillResult?.cachedTokens ?? 0
    const prompt = usage?.promptTokens ?? this.#promptTokens ?? Infinity
    if (!this.#hasText && cached > prompt)
      throw violation('cached-over-prompt', `${cached} of ${prompt} prompt tokens`)
  }

  #checkStopped(chunk: Chunk): void {
    if (chunk.tokenIds.length > 0)
      throw violation('tokens-after-cancel', `${chunk.tokenIds.length} tokens after the stop`)
    if (chunk.text !== undefined && chunk.text !== '')
      throw violation('tokens-after-cancel', 'text after the stop')
    if (chunk.finish !== 'cancelled')
      throw violation('cancel-ignored', `after the stop came '${chunk.finish ?? 'a chunk'}'`)
  }

  #checkUsage(usage: Usage, finish: FinishReason | undefined): void {
    const tokenCount = this.#tokenCount
    // Before the first id or text, the stream may still become one with text, or be stopped before.
    const isWhole = finish !== undefined && finish !== 'cancelled' && !this.#hasEmptyText
    const isOfIds = !this.#hasText && (tokenCount > 0 || isWhole)
    const fault = this.#usage.take(usage, { tokenCount, isOfIds })
    if (fault !== null) throw violation(fault.rule, fault.detail)
  }
}

/** The same stream, validated. Reading stops at the first violation; the engine's iterator is always closed. */
export async function* validateStream(
  chunks: AsyncIterable<EngineChunk>,
  options: ValidateOptions = {},
): AsyncGenerator<Chunk, void, undefined> {
  const validator = new StreamValidator(options)
  const iterator = chunks[Symbol.asyncIterator]()
  try {
    for (;;) {
      validator.pull()
      const item = await readItem(iterator, validator)
      if (item.done === true) {
        validator.end()
        return
      }
      yield validator.chunk(item.value)
    }
  } finally {
    await iterator.return?.()
  }
}

async function readItem(
  iterator: AsyncIterator<EngineChunk>,
  validator: StreamValidator,
): Promise<IteratorResult<EngineChunk>> {
  try {
    return await iterator.next()
  } catch (thrown) {
    throw validator.failure(thrown)
  }
}
