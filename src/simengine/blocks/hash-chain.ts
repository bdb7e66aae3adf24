/**
 * The hashes of a sequence's full blocks, (low, high) pairs: those of its prompt, then those of what it has generated.
 *
 * Unboxed, because they are read for every block: half of them are above what a list keeps as a small integer.
 */
export class HashChain {
  #words: Uint32Array
  #length: number
  #isOwn = false

  /** `promptHashes` is only read. */
  constructor(promptHashes: Uint32Array) {
    this.#words = promptHashes
    this.#length = promptHashes.length
  }

  /** Numbers, two for each block; those of `words` behind it mean nothing. */
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
