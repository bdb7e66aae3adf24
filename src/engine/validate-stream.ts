/**
 * Checks that a stream of an engine keeps the contract, and names the rule that it breaks.
 *
 * `StreamValidator` is the sans-IO form (one call per item), `validateStream` wraps an iterable. A broken rule is
 * thrown as `backend.contract_violation` with the rule in `data.rule`; a stream that just ends is
 * `backend.stream_incomplete`; what an engine throws that is not typed becomes `backend.unknown`.
 */
import { BatonError } from '../base/index.ts'
import type { Chunk, FinishReason, GenerateRequest } from '../request/index.ts'
import type { GenerateContext } from './generate-context.ts'

export const STREAM_RULES = {
  'item-after-terminal': 'Nothing follows a terminal item.',
  'missing-terminal': 'The stream ends with a chunk that has `finish`, or with an error.',
  'error-untyped': 'An error that ends the stream is a BatonError.',
  'finish-unknown': '`finish` is one of the known reasons.',
  'token-invalid': 'Token ids are unsigned 32-bit integers.',
  'tokens-over-max': 'No more tokens than `maxTokens`.',
  'usage-mismatch': '`usage.completionTokens` is the number of tokens streamed.',
  'usage-total-mismatch': '`usage.totalTokens` is the sum of prompt and completion tokens.',
  'logprobs-mismatch': 'Log-probabilities come one per token, for the tokens of the chunk.',
  'logprobs-missing': 'Log-probabilities that were asked for come with every token.',
  'tokens-after-cancel': 'An item asked for after the stop carries no tokens and ends the stream.',
  'cancel-ignored': 'A stream that was stopped ends with `cancelled`.',
} as const

export type StreamRule = keyof typeof STREAM_RULES

export interface ValidateOptions {
  /** Switches on what can only be judged with the request. */
  readonly request?: GenerateRequest
  /** Switches on what can only be judged with the stop signal. */
  readonly context?: GenerateContext
}

const FINISH_REASONS: ReadonlySet<string> = new Set<FinishReason>([
  'stop',
  'eos',
  'length',
  'cancelled',
  'content_filter',
])

function violation(rule: StreamRule, detail: string): BatonError {
  const code =
    rule === 'missing-terminal' ? 'backend.stream_incomplete' : 'backend.contract_violation'
  return new BatonError(code, `the engine broke the stream contract (${rule}): ${detail}`, {
    data: { rule },
  })
}

/** The rule that an error of the validator names, or null. */
export function brokenStreamRule(error: unknown): StreamRule | null {
  const rule = error instanceof BatonError ? error.data.rule : undefined
  return typeof rule === 'string' && Object.hasOwn(STREAM_RULES, rule) ? (rule as StreamRule) : null
}

export class StreamValidator {
  readonly #maxTokens: number
  readonly #wantsLogprobs: boolean
  readonly #context: GenerateContext | undefined
  #tokenCount = 0
  #hasEnded = false
  #wasStopped = false

  constructor(options: ValidateOptions = {}) {
    this.#maxTokens = options.request?.stop.maxTokens ?? Infinity
    this.#wantsLogprobs = options.request?.output.logprobs !== undefined
    this.#context = options.context
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Before each item is asked for: one that was under way when the stop came is still welcome. */
  pull(): void {
    this.#wasStopped = this.#context?.isStopped ?? false
  }

  /** Throws when the chunk breaks a rule. */
  chunk(chunk: Chunk): void {
    if (this.#hasEnded) throw violation('item-after-terminal', 'a chunk came after the end')
    const { tokenIds, finish } = chunk
    for (const id of tokenIds) {
      if (id >>> 0 !== id) throw violation('token-invalid', `token id ${id}`)
    }
    this.#tokenCount += tokenIds.length
    if (this.#tokenCount > this.#maxTokens)
      throw violation('tokens-over-max', `${this.#tokenCount} tokens, asked ${this.#maxTokens}`)
    if (tokenIds.length > 0) this.#checkLogprobs(chunk)
    if (this.#wasStopped) this.#checkStopped(chunk)
    if (finish === undefined) return
    this.#hasEnded = true
    if (!FINISH_REASONS.has(finish)) throw violation('finish-unknown', `finish '${String(finish)}'`)
    this.#checkUsage(chunk)
  }

  /** An error that the engine threw: the error to hand on. It is terminal. */
  failure(thrown: unknown): BatonError {
    if (this.#hasEnded) return violation('item-after-terminal', 'an error came after the end')
    this.#hasEnded = true
    return BatonError.from(thrown, 'backend.unknown')
  }

  /** The iterator is done. Throws when nothing terminal was seen. */
  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    throw violation('missing-terminal', `the stream ended after ${this.#tokenCount} tokens`)
  }

  #checkStopped(chunk: Chunk): void {
    if (chunk.tokenIds.length > 0)
      throw violation('tokens-after-cancel', `${chunk.tokenIds.length} tokens after the stop`)
    if (chunk.finish !== 'cancelled')
      throw violation('cancel-ignored', `after the stop came '${chunk.finish ?? 'a chunk'}'`)
  }

  #checkLogprobs({ tokenIds, logprobs }: Chunk): void {
    if (logprobs === undefined) {
      if (this.#wantsLogprobs) throw violation('logprobs-missing', 'a chunk without logprobs')
      return
    }
    const fits =
      logprobs.length === tokenIds.length &&
      logprobs.every((entry, i) => entry.tokenId === tokenIds[i])
    if (!fits)
      throw violation('logprobs-mismatch', `${logprobs.length} for ${tokenIds.length} tokens`)
  }

  #checkUsage({ usage }: Chunk): void {
    if (usage === undefined) return
    const { promptTokens, completionTokens, totalTokens } = usage
    if (completionTokens !== this.#tokenCount)
      throw violation('usage-mismatch', `says ${completionTokens}, streamed ${this.#tokenCount}`)
    if (totalTokens !== Math.min(promptTokens + completionTokens, 0xffffffff))
      throw violation(
        'usage-total-mismatch',
        `${promptTokens} + ${completionTokens} ≠ ${totalTokens}`,
      )
  }
}

/** The same stream, checked. Reading stops at the first broken rule; the engine's iterator is always closed. */
export async function* validateStream(
  chunks: AsyncIterable<Chunk>,
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
      validator.chunk(item.value)
      yield item.value
    }
  } finally {
    await iterator.return?.()
  }
}

async function readItem(
  iterator: AsyncIterator<Chunk>,
  validator: StreamValidator,
): Promise<IteratorResult<Chunk>> {
  try {
    return await iterator.next()
  } catch (thrown) {
    throw validator.failure(thrown)
  }
}
