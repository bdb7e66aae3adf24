/**
 * Prefill tokens in flight on one rank, and how they shrink while a prefill runs.
 *
 * Without expected durations the load is the sum of the tokens until each prefill completes. With a duration the oldest
 * prefill (the anchor) wears off over time; when all have one, the wear may spill over to those behind it.
 */
interface Entry {
  readonly tokens: number
  readonly durationMs: number | null
}

export class PrefillLoad {
  readonly #entries = new Map<object, Entry>()
  #tokens = 0
  #timed = 0
  #anchor: object | null = null
  #anchorSinceMs = 0

  /** True when the load depends on the clock. */
  get wearsOff(): boolean {
    const anchor = this.#anchor === null ? undefined : this.#entries.get(this.#anchor)
    return anchor !== undefined && anchor.durationMs !== null
  }

  add(owner: object, tokens: number, durationMs: number | null, nowMs: number): void {
    this.#entries.set(owner, { tokens, durationMs })
    this.#tokens += tokens
    if (durationMs !== null) this.#timed++
    if (this.#anchor === null) {
      this.#anchor = owner
      this.#anchorSinceMs = nowMs
    }
  }

  /** Idempotent. */
  remove(owner: object, nowMs: number): void {
    const entry = this.#entries.get(owner)
    if (entry === undefined) return
    this.#entries.delete(owner)
    this.#tokens -= entry.tokens
    if (entry.durationMs !== null) this.#timed--
    if (this.#anchor !== owner) return
    const next = this.#entries.keys().next()
    this.#anchor = next.done === true ? null : next.value
    this.#anchorSinceMs = nowMs
  }

  tokensAt(nowMs: number): number {
    const anchor = this.#anchor === null ? undefined : this.#entries.get(this.#anchor)
    if (anchor === undefined || anchor.durationMs === null) return this.#tokens
    const elapsedMs = Math.max(nowMs - this.#anchorSinceMs, 0)
    if (anchor.durationMs === 0) return this.#tokens - anchor.tokens
    if (this.#timed === this.#entries.size) {
      const worn = Math.floor((anchor.tokens * elapsedMs) / anchor.durationMs)
      return Math.max(0, this.#tokens - worn)
    }
    const left = Math.min(Math.max(1 - elapsedMs / anchor.durationMs, 0), 1)
    return this.#tokens - anchor.tokens + Math.ceil(anchor.tokens * left)
  }
}
