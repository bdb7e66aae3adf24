/**
 * One request inside the engine: what is known of it, and the queue of chunks that its reader takes from.
 *
 * States: waiting → prefill → decode → ended; any state → ended. `end` and `fail` work once.
 */
import type { BatonError } from '../../../base/index.ts'
import type { GenerateContext, KvPin, PromptBlocks } from '../../../engine/index.ts'
import { finishChunk, hasStopTexts, usageOf } from '../../../request/index.ts'
import type { Chunk, FinishReason, GenerateRequest, Usage } from '../../../request/index.ts'
import type { TokenChooser } from './token-chooser.ts'

type RunState = 'waiting' | 'prefill' | 'decode' | 'ended'

export class SequenceRun {
  readonly request: GenerateRequest
  readonly context: GenerateContext
  /** Prompt and output so far; the first `tokenCount` entries count. */
  readonly tokens: Uint32Array
  readonly chooser: TokenChooser
  /** Tokens that are computed in the shape of a prompt; the rest one by one. */
  readonly prefillTokens: number
  readonly maxTokens: number
  /** Place in the order of arrival. */
  readonly arrival: number
  state: RunState = 'waiting'
  slot = -1
  tokenCount: number
  /** Tokens whose KV is in the slot. */
  computedTokens = 0
  cachedTokens = 0
  blocks: PromptBlocks | undefined
  readonly #chunks: Chunk[] = []
  #error: BatonError | undefined
  #wake: (() => void) | undefined
  #isAbandoned = false
  #pin: KvPin | undefined
  #deliveredTokens = 0
  readonly #onStop = (): void => this.#wake?.()

  constructor(
    request: GenerateRequest,
    context: GenerateContext,
    chooser: TokenChooser,
    contextLength: number,
    arrival: number,
  ) {
    this.arrival = arrival
    this.request = request
    this.context = context
    this.chooser = chooser
    const promptTokens = request.tokenIds.length
    const room = contextLength - promptTokens
    this.maxTokens = Math.min(request.stop.maxTokens ?? room, room)
    this.tokens = new Uint32Array(promptTokens + this.maxTokens)
    this.tokens.set(request.tokenIds)
    this.tokenCount = promptTokens
    this.prefillTokens = Math.max(0, promptTokens - (request.resumedTokens ?? 0) - 1)
    context.signal.addEventListener('abort', this.#onStop, { once: true })
  }

  get outputTokens(): number {
    return this.tokenCount - this.request.tokenIds.length
  }

  /** Index of the next output token since the request began, also at another worker. */
  get outputIndex(): number {
    return this.outputTokens + (this.request.resumedTokens ?? 0)
  }

  get isStopped(): boolean {
    return this.#isAbandoned || this.context.isStopped
  }

  push(chunk: Chunk): void {
    if (this.state === 'ended') return
    this.#chunks.push(chunk)
    this.#wake?.()
  }

  end(finish: FinishReason, rest: Partial<Chunk> = {}): void {
    this.push(finishChunk(finish, { ...rest, usage: this.#usage(this.outputTokens) }))
    this.state = 'ended'
  }

  fail(error: BatonError): void {
    if (this.state === 'ended') return
    this.#error = error
    this.state = 'ended'
    this.#wake?.()
  }

  /** Keeps blocks in the store until the run is let go, or until others take their place. */
  hold(pin: KvPin | undefined): void {
    this.#pin?.release()
    this.#pin = this.#isAbandoned ? undefined : pin
    if (this.#isAbandoned) pin?.release()
  }

  /** Nobody reads any more. */
  abandon(): void {
    this.#isAbandoned = true
    this.hold(undefined)
    this.context.signal.removeEventListener('abort', this.#onStop)
  }

  /**
   * The next chunk in order; throws the error that ended the run. After a stop it is the end at once, without tokens,
   * whatever the loop has computed in the meantime; the loop frees the slot at its next step.
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
