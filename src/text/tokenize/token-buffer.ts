/** Growing list of token ids that ends as one `Uint32Array`. */
export class TokenBuffer {
  #ids: Uint32Array
  #length = 0

  constructor(capacity: number) {
    this.#ids = new Uint32Array(Math.max(16, capacity))
  }

  push(id: number): void {
    if (this.#length === this.#ids.length) this.#grow(this.#length + 1)
    this.#ids[this.#length++] = id
  }

  pushRange(ids: Uint32Array, start: number, end: number): void {
    const length = this.#length + end - start
    if (length > this.#ids.length) this.#grow(length)
    // A loop beats `set` for the few ids of a word.
    const own = this.#ids
    for (let i = start, at = this.#length; i < end; i++, at++) own[at] = ids[i]!
    this.#length = length
  }

  get length(): number {
    return this.#length
  }

  /** A copy of what was appended since the buffer had `start` ids. */
  since(start: number): Uint32Array {
    return this.#ids.slice(start, this.#length)
  }

  finish(): Uint32Array {
    return this.#ids.slice(0, this.#length)
  }

  #grow(needed: number): void {
    const wider = new Uint32Array(Math.max(needed, this.#ids.length * 2))
    wider.set(this.#ids)
    this.#ids = wider
  }
}
