/** The prefills of this router that have not ended and that a decode leg follows, and how long they take. */
const NEWEST_SHARE = 0.1

export class LegsUnderWay {
  #count = 0
  /** Moving average of the time from dispatch to end, in milliseconds. */
  #meanMs: number | null = null

  get count(): number {
    return this.#count
  }

  /** 0 before the first end. */
  get meanMs(): number {
    return this.#meanMs ?? 0
  }

  sent(): void {
    this.#count++
  }

  ended(tookMs: number): void {
    this.#count--
    this.#meanMs = (this.#meanMs ?? tookMs) * (1 - NEWEST_SHARE) + tookMs * NEWEST_SHARE
  }
}
