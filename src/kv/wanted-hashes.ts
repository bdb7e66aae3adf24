/**
 * A few hashes that are looked for among many blocks: a small table that fits into the processor's cache.
 */
export class WantedHashes {
  readonly #hashes: Uint32Array
  /** Number of a hash + 1, by its low word. */
  readonly #slots: Int32Array
  /** Hashes that have not been met yet. */
  left = 0

  constructor(hashes: Uint32Array) {
    this.#hashes = hashes
    let length = 16
    while (length < 2 * hashes.length) length *= 2
    this.#slots = new Int32Array(length)
  }

  /** Hash number `k` is wanted. */
  add(k: number): void {
    const slots = this.#slots
    const mask = slots.length - 1
    let slot = (this.#hashes[2 * k] as number) & mask
    while (slots[slot] !== 0) slot = (slot + 1) & mask
    slots[slot] = k + 1
    this.left += 1
  }

  /** Whether a hash is wanted; the caller asks once for each block. */
  take(low: number, high: number): boolean {
    const slots = this.#slots
    const mask = slots.length - 1
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      const k = (slots[slot] as number) - 1
      if (k < 0) return false
      if (this.#hashes[2 * k] !== low || this.#hashes[2 * k + 1] !== high) continue
      this.left -= 1
      return true
    }
  }
}
