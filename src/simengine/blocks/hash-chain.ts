/**
 * The hashes of a sequence's full blocks as (low, high) pairs: those of the prompt, then those of its output.
 *
 * A typed array, because it is read for every block: half of the words are too large for V8's small integers.
 */
export class HashChain {
  #words: Uint32Array
  #length: number
  #isOwn = false

  /** `promptHashes` is not modified. */
  constructor(promptHashes: Uint32Array) {
    this.#words = promptHashes
    this.#length = promptHashes.length
  }

  /** Number of valid words, two for each block. */
  get length(): number {
    return this.#length
  }

  get words(): Uint32Array {
    return this.#words
  }

  push(low: number, high: number): void {
    if (!this.#isOwn || this.#length + 2 > this.#words.length) this.#grow()
    this.#words[this.#length++] = low
    this.#words[this.#length++] = high
  }

  #grow(): void {
    const larger = new Uint32Array(this.#length + (this.#length >> 1) + 16)
    larger.set(this.#words)
    this.#words = larger
    this.#isOwn = true
  }
}
