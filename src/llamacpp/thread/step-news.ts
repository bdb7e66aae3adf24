/**
 * The results of steps, collected into one message.
 *
 * Tokens after the first of a run may wait for those of the next steps; everything else is urgent.
 */
import type { BatonError } from '../../base/index.ts'
import type { TokenLogprobs } from '../../request/index.ts'
import type { RunEnd, StepMessage } from './thread-messages.ts'

export class StepNews {
  #message: StepMessage = { kind: 'step' }
  #isEmpty = true
  /** Pairs of run and token, which is usually everything. */
  #tokens: number[] = []
  #hasFirstToken = false

  get isEmpty(): boolean {
    return this.#isEmpty && this.#tokens.length === 0
  }

  /** True when somebody waits for it: the next request, a first token, an end. */
  get isUrgent(): boolean {
    return !this.#isEmpty || this.#hasFirstToken
  }

  progress(id: number, computedTokens: number): void {
    this.#changed().progress ??= []
    this.#message.progress?.push(id, computedTokens)
  }

  loaded(id: number, tokens: number): void {
    this.#changed().loaded ??= []
    this.#message.loaded?.push(id, tokens)
  }

  ahead(id: number, tokens: number): void {
    this.#changed().ahead ??= []
    this.#message.ahead?.push(id, tokens)
  }

  kept(id: number): void {
    this.#changed().kept ??= []
    this.#message.kept?.push(id)
  }

  promptScored(id: number, logprobs: readonly TokenLogprobs[]): void {
    this.#changed().promptLogprobs ??= []
    this.#message.promptLogprobs?.push({ id, logprobs })
  }

  token(id: number, token: number, logprobs: TokenLogprobs | undefined, isFirst: boolean): void {
    if (logprobs === undefined) {
      this.#tokens.push(id, token)
      if (isFirst) this.#hasFirstToken = true
      return
    }
    const message = this.#changed()
    message.scored ??= []
    message.scored.push({ id, token, logprobs })
  }

  end(end: RunEnd): void {
    this.#changed().ends ??= []
    this.#message.ends?.push(end)
  }

  failed(id: number, error: BatonError): void {
    this.#changed().failures ??= []
    this.#message.failures?.push({ id, error: error.toValue() })
  }

  embedded(id: number, vector: Float32Array): void {
    this.#changed().embeddings ??= []
    this.#message.embeddings?.push({ id, vector })
  }

  /** Undefined: there are no results. */
  take(): StepMessage | number[] | undefined {
    const tokens = this.#tokens
    if (tokens.length > 0) this.#tokens = []
    this.#hasFirstToken = false
    if (this.#isEmpty) return tokens.length > 0 ? tokens : undefined
    const message = this.#message
    if (tokens.length > 0) message.tokens = tokens
    this.#message = { kind: 'step' }
    this.#isEmpty = true
    return message
  }

  #changed(): StepMessage {
    this.#isEmpty = false
    return this.#message
  }
}
