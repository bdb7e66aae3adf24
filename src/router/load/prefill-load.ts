/**
 * Prefill tokens in flight on one rank, and how they decrease while prefills run.
 *
 * Without expected durations the load is the sum of the tokens of all prefills that are not complete. With a
 * duration, the oldest prefill (the anchor) decays over time; if all have one, the decay continues with the prefills
 * behind it.
 */
export interface OpenPrefill {
  readonly tokens: number
  readonly durationMs: number | null
  isDone: boolean
}

export class PrefillLoad {
  /** In order of start; finished ones are removed when they are first in the list or there are too many. */
  #prefills: OpenPrefill[] = []
  #first = 0
  #open = 0
  #tokens = 0
  #timed = 0
  #anchorSinceMs = 0

  /** True if the load depends on the clock. */
  get isDecaying(): boolean {
    return (this.#anchor?.durationMs ?? null) !== null
  }

  add(tokens: number, durationMs: number | null, nowMs: number): OpenPrefill {
    const prefill = { tokens, durationMs, isDone: false }
    if (this.#open === 0) this.#anchorSinceMs = nowMs
    this.#prefills.push(prefill)
    this.#open++
    this.#tokens += tokens
    if (durationMs !== null) this.#timed++
    return prefill
  }

  /** Idempotent. */
  remove(prefill: OpenPrefill, nowMs: number): void {
    if (prefill.isDone) return
    const isAnchor = prefill === this.#anchor
    prefill.isDone = true
    this.#open--
    this.#tokens -= prefill.tokens
    if (prefill.durationMs !== null) this.#timed--
    if (isAnchor) {
      this.#anchorSinceMs = nowMs
      while (this.#anchor?.isDone === true) this.#first++
    }
    if (this.#prefills.length > 2 * this.#open + COMPACT_ABOVE) {
      this.#prefills = this.#prefills.filter(({ isDone }) => !isDone)
      this.#first = 0
    }
  }

  tokensAt(nowMs: number): number {
    const anchor = this.#anchor
    if (anchor === undefined || anchor.durationMs === null) return this.#tokens
    const elapsedMs = Math.max(nowMs - this.#anchorSinceMs, 0)
    if (anchor.durationMs === 0) return this.#tokens - anchor.tokens
    if (this.#timed === this.#open) {
      const worn = Math.floor((anchor.tokens * elapsedMs) / anchor.durationMs)
      return Math.max(0, this.#tokens - worn)
    }
    const left = Math.min(Math.max(1 - elapsedMs / anchor.durationMs, 0), 1)
    return this.#tokens - anchor.tokens + Math.ceil(anchor.tokens * left)
  }

  /** The oldest prefill that is not done. */
  get #anchor(): OpenPrefill | undefined {
    return this.#prefills[this.#first]
  }
}

const COMPACT_ABOVE = 32
