/**
 * How many tokens of a choice were reasoning: a token counts for the first part of the output that came of it. Tags around
 * a thought count for what follows them.
 */
export class ReasoningCount {
  tokens = 0
  #seen = 0

  /** Called per part of the output, with the tokens so far. */
  part(isReasoning: boolean, tokenCount: number): void {
    if (isReasoning) this.tokens += tokenCount - this.#seen
    this.#seen = tokenCount
  }
}
