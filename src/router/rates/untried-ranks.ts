/** Which ranks of a pool have not shown their speed yet: no first token was measured, and they have reported none. */

const MIN_CAPACITY = 16

export class UntriedRanks {
  #isUntried = new Uint8Array(MIN_CAPACITY)
  count = 0

  /** A new rank uses this slot. `isKnown`: it has reported its speed. */
  join(slot: number, isKnown: boolean): void {
    if (slot >= this.#isUntried.length) this.#grow(slot)
    this.measured(slot)
    if (isKnown) return
    this.#isUntried[slot] = 1
    this.count++
  }

  /** The rank has shown its speed, or is gone. */
  measured(slot: number): void {
    if (!this.has(slot)) return
    this.#isUntried[slot] = 0
    this.count--
  }

  has(slot: number): boolean {
    return this.#isUntried[slot] === 1
  }

  #grow(slot: number): void {
    const grown = new Uint8Array(Math.max(slot + 1, 2 * this.#isUntried.length))
    grown.set(this.#isUntried)
    this.#isUntried = grown
  }
}
