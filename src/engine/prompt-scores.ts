/**
 * Follows the log-probabilities of a prompt's tokens in a stream: they must be those of the prompt's own tokens, in
 * order and without gaps. The frontend returns them by their position.
 */
import type { GenerateRequest, PromptLogprobs } from '../request/index.ts'

export class PromptScores {
  readonly #isWanted: boolean
  /** Null: the ids are an estimate, and only the engine knows the prompt's tokens. */
  readonly #tokenIds: Uint32Array | null
  #next = 1

  constructor({ output, routing, tokenIds }: GenerateRequest) {
    this.#isWanted = output.promptLogprobs !== undefined
    this.#tokenIds = routing.isEstimated === true ? null : tokenIds
  }

  /** Position of the first prompt token that has no log-probabilities yet. */
  get next(): number {
    return this.#next
  }

  /** True if they were requested and some have not arrived. */
  get isAwaited(): boolean {
    return this.#isWanted && this.#tokenIds !== null && this.#next < this.#tokenIds.length
  }

  /** What is wrong with them, or null. A part that has arrived before may be repeated. */
  take({ from, tokens }: PromptLogprobs): string | null {
    if (from > this.#next) return `from ${from} instead of ${this.#next}`
    const ids = this.#tokenIds
    if (ids !== null) {
      if (from + tokens.length > Math.max(ids.length, 1))
        return `${tokens.length} from ${from}, the prompt has ${ids.length} tokens`
      const wrong = tokens.findIndex(({ tokenId }, index) => tokenId !== ids[from + index])
      if (wrong !== -1) return `position ${from + wrong} has those of another token`
    }
    this.#next = Math.max(this.#next, from + tokens.length)
    return null
  }
}
