/**
 * Refusing by prediction yields no measurement that could correct the prediction. If requests have been refused for
 * `PROBE_EVERY_MS` without a first token, one request is let through.
 */
const PROBE_EVERY_MS = 5000

export class LateProbe {
  #firstTokens = -1
  #sinceMs = 0

  /** Whether the request that would be refused is let through. `firstTokens`: total number of first tokens so far. */
  isDue(firstTokens: number, nowMs: number): boolean {
    if (firstTokens !== this.#firstTokens) {
      this.#firstTokens = firstTokens
      this.#sinceMs = nowMs
      return false
    }
    if (nowMs - this.#sinceMs < PROBE_EVERY_MS) return false
    this.#sinceMs = nowMs
    return true
  }
}
