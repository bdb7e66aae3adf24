/** The tokens that one step may still compute, and how many each sequence gets. */
import type { SchedulerConfig } from './scheduler-config.ts'
import type { SimSequence } from './sim-sequence.ts'

export class StepBudget {
  readonly #config: SchedulerConfig
  #tokens = 0
  #promptTokens = 0
  #prompts = 0

  constructor(config: SchedulerConfig) {
    this.#config = config
  }

  get tokens(): number {
    return this.#tokens
  }

  begin(): void {
    this.#tokens = this.#config.tokenBudget
    this.#promptTokens = this.#config.promptBudget
    this.#prompts = this.#config.promptsPerStep
  }

  /** Number of tokens granted to a request with this many tokens to compute; 0: none in this step. */
  share(remaining: number): number {
    // A single token is the next one of an output.
    if (remaining <= 1) return Math.min(remaining, this.#tokens)
    return this.#prompts > 0 ? Math.min(remaining, this.#tokens, this.#config.promptChunk) : 0
  }

  /** A prompt that is alone in its step may exceed the prompt budget. */
  fitsPrompt(tokens: number): boolean {
    return tokens <= this.#promptTokens || this.#promptTokens === this.#config.promptBudget
  }

  /** The sequence computes `take` tokens from `base` on. */
  give(sequence: SimSequence<unknown>, base: number, take: number): void {
    const prefix = Math.min(base, sequence.promptTokens)
    sequence.stepTokens = take
    if (take > 1) this.#prompts -= 1
    sequence.stepPrefixTokens = prefix
    sequence.stepPromptTokens = Math.min(base + take, sequence.promptTokens) - prefix
    this.#tokens -= take
    this.#promptTokens -= sequence.stepPromptTokens
  }

  giveDrafts(sequence: SimSequence<unknown>, drafts: number): void {
    sequence.stepDrafts = drafts
    this.#tokens -= drafts
  }

  /** The sequence computes nothing in this step after all. */
  takeBack(sequence: SimSequence<unknown>): void {
    this.#tokens += sequence.stepTokens + sequence.stepDrafts
    if (sequence.stepTokens > 1) this.#prompts += 1
    this.#promptTokens += sequence.stepPromptTokens
    sequence.clearStep()
  }
}
