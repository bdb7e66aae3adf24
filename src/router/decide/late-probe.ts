/**
 * Requests that are refused by a prediction bring nothing that could correct it. Where they have been refused for a while
 * and no first token has come, one of them goes on.
 */
const PROBE_EVERY_MS = 5000

export class LateProbe {
  #firstTokens = -1
  #sinceMs = 0

  /** Asked when one would be refused. `firstTokens`: that have come since ever. */
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
