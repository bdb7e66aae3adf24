/**
 * Follows the token counts that an engine reports in a stream: clients, budgets of keys and routers use each of them,
 * not only those of the end.
 *
 * In a stream of ids they must be what was streamed. Only the engine knows how many tokens a text and its prompt have;
 * such a count must not decrease, and not be more than was requested.
 */
import type { GenerateRequest, Usage } from '../request/index.ts'

interface UsageFault {
  readonly rule: 'usage-mismatch' | 'usage-prompt-mismatch' | 'usage-total-mismatch'
  readonly detail: string
}

interface Streamed {
  /** Token ids so far. */
  readonly tokenCount: number
  /** It is known that the stream has no text. */
  readonly isOfIds: boolean
}

export class UsageCount {
  readonly #promptTokens: number | undefined
  readonly #maxTokens: number
  #last = 0

  constructor(request?: GenerateRequest) {
    this.#promptTokens = request?.tokenIds.length
    this.#maxTokens = request?.stop.maxTokens ?? Infinity
  }

  /** What is wrong with a report, or null. */
  take(usage: Usage, { tokenCount, isOfIds }: Streamed): UsageFault | null {
    const { promptTokens, completionTokens, totalTokens } = usage
    if (isOfIds && promptTokens !== (this.#promptTokens ?? promptTokens))
      return {
        rule: 'usage-prompt-mismatch',
        detail: `${promptTokens} of ${this.#promptTokens} tokens`,
      }
    if (isOfIds ? completionTokens !== tokenCount : completionTokens < tokenCount)
      return mismatch(`says ${completionTokens}, streamed ${tokenCount}`)
    if (completionTokens < this.#last)
      return mismatch(`says ${completionTokens}, said ${this.#last} before`)
    if (completionTokens > this.#maxTokens)
      return mismatch(`says ${completionTokens}, asked ${this.#maxTokens} tokens`)
    this.#last = completionTokens
    return totalTokens === Math.min(promptTokens + completionTokens, 0xffffffff)
      ? null
      : {
          rule: 'usage-total-mismatch',
          detail: `${promptTokens} + ${completionTokens} ≠ ${totalTokens}`,
        }
  }
}

function mismatch(detail: string): UsageFault {
  return { rule: 'usage-mismatch', detail }
}
