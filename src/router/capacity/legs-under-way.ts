/** The prefills of this router that have not ended and that a decode leg follows, and how long they take. */
const NEWEST_SHARE = 0.1

export class LegsUnderWay {
  #count = 0
  readonly #bySlot = new Map<number, number>()
  /** Moving average of the time from dispatch to end, in milliseconds. */
  #meanMs: number | null = null

  get count(): number {
    return this.#count
  }

  /** 0 before the first end. */
  get meanMs(): number {
    return this.#meanMs ?? 0
  }

  countOn(slots: readonly number[]): number {
    return slots.reduce((sum, slot) => sum + (this.#bySlot.get(slot) ?? 0), 0)
  }

  sent(slot: number): void {
    this.#add(slot, 1)
  }

  ended(slot: number, tookMs: number): void {
    this.#add(slot, -1)
    this.#meanMs = (this.#meanMs ?? tookMs) * (1 - NEWEST_SHARE) + tookMs * NEWEST_SHARE
  }

  #add(slot: number, change: 1 | -1): void {
    this.#count += change
    const count = (this.#bySlot.get(slot) ?? 0) + change
    if (count === 0) this.#bySlot.delete(slot)
    else this.#bySlot.set(slot, count)
  }
}
