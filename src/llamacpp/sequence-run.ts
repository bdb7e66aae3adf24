/**
 * One request as the engine's owner sees it, with the queue of chunks for its reader.
 *
 * States: waiting → running → ended; any state → ended. `end` and `fail` take effect once.
 */
import type { BatonError } from '../base/index.ts'
import type { GenerateContext, KvPin } from '../engine/index.ts'
import { finishChunk, hasStopTexts, usageOf } from '../request/index.ts'
import type {
  Chunk,
  FinishReason,
  GenerateRequest,
  TokenLogprobs,
  Usage,
} from '../request/index.ts'

type RunState = 'waiting' | 'running' | 'ended'

interface SequenceRunOptions {
  readonly id: number
  readonly request: GenerateRequest
  readonly context: GenerateContext
  readonly contextLength: number
  readonly gbnf: string | undefined
  /** Called when no more output is wanted: cancelled, or its reader has left. May be called more than once. */
  readonly onStopped: (run: SequenceRun) => void
}

export class SequenceRun {
  readonly request: GenerateRequest
  readonly context: GenerateContext
  readonly id: number
  /** The grammar of the output. */
  readonly gbnf: string | undefined
  /** Tokens that are computed in the shape of a prompt; the rest one by one. */
  readonly prefillTokens: number
  readonly maxTokens: number
  state: RunState = 'waiting'
  /** Prompt and output so far. */
  tokenCount: number
  /** Prompt tokens whose KV has been computed. */
  computedTokens = 0
  cachedTokens = 0
  readonly #chunks: Chunk[] = []
  #error: BatonError | undefined
  #wake: (() => void) | undefined
  #isAbandoned = false
  #pin: KvPin | undefined
  #deliveredTokens = 0
  /** Prompt tokens whose log-probabilities were pushed. */
  #scoredTokens = 0
  readonly #onStopped: (run: SequenceRun) => void
  readonly #onStop = (): void => {
    this.#onStopped(this)
    this.#wake?.()
  }

  constructor(options: SequenceRunOptions) {
    const { id, request, context, contextLength, onStopped } = options
    this.id = id
    this.gbnf = options.gbnf
    this.request = request
    this.context = context
    this.#onStopped = onStopped
    const promptTokens = request.tokenIds.length
    const available = contextLength - promptTokens
    this.maxTokens = Math.min(request.stop.maxTokens ?? available, available)
    this.tokenCount = promptTokens
    this.prefillTokens = Math.max(0, promptTokens - (request.resumedTokens ?? 0) - 1)
    context.signal.addEventListener('abort', this.#onStop, { once: true })
  }

  get outputTokens(): number {
    return this.tokenCount - this.request.tokenIds.length
  }

  get isStopped(): boolean {
    return this.#isAbandoned || this.context.isStopped
  }

  push(chunk: Chunk): void {
    if (this.state === 'ended') return
    this.tokenCount += chunk.tokenIds.length
    this.#chunks.push(chunk)
    this.#wake?.()
  }

  /** In the order of the prompt; its first token has none. */
  pushPromptLogprobs(tokens: readonly TokenLogprobs[]): void {
    this.push({ tokenIds: [], promptLogprobs: { from: this.#scoredTokens + 1, tokens } })
    this.#scoredTokens += tokens.length
  }

  end(finish: FinishReason, rest: Partial<Chunk> = {}): void {
    const outputTokens = this.outputTokens + (rest.tokenIds?.length ?? 0)
    this.push(finishChunk(finish, { ...rest, usage: this.#usage(outputTokens) }))
    this.state = 'ended'
  }

  fail(error: BatonError): void {
    if (this.state === 'ended') return
    this.#error = error
    this.state = 'ended'
    this.#wake?.()
  }

  /** Keeps blocks in the store until the run is released, or until other blocks replace them. */
  hold(pin: KvPin | undefined): void {
    this.#pin?.release()
    this.#pin = this.#isAbandoned ? undefined : pin
    if (this.#isAbandoned) pin?.release()
  }

  /** The reader has left. */
  abandon(): void {
    if (this.#isAbandoned) return
    this.#isAbandoned = true
    this.hold(undefined)
    this.context.signal.removeEventListener('abort', this.#onStop)
    this.#onStopped(this)
  }

  /**
   * The next chunk in order; throws the error that ended the run. After a cancel it is the end at once, without
   * tokens, whatever was computed meanwhile; the thread frees the slot at its next step.
   */
  async next(): Promise<Chunk> {
    for (;;) {
      if (this.context.isStopped) return this.#cancelled()
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) {
        const isFirst = this.#deliveredTokens === 0
        this.#deliveredTokens += chunk.tokenIds.length
        return isFirst && hasStopTexts(this.request.stop) ? this.#withUsage(chunk) : chunk
      }
      if (this.#error !== undefined) throw this.#error
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      this.#wake = undefined
    }
  }

  #withUsage(chunk: Chunk): Chunk {
    return chunk.usage === undefined
      ? { ...chunk, usage: this.#usage(this.#deliveredTokens) }
      : chunk
  }

  #cancelled(): Chunk {
    this.state = 'ended'
    return finishChunk('cancelled', { usage: this.#usage(this.#deliveredTokens) })
  }

  #usage(outputTokens: number): Usage {
    const cached = this.request.prefillResult?.cachedTokens ?? this.cachedTokens
    return usageOf(this.request.tokenIds.length, outputTokens, cached)
  }
}
