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

  pushAll(ids: Uint32Array): void {
    const end = this.#length + ids.length
    if (end > this.#ids.length) this.#grow(end)
    // A loop beats `set` for the few ids of a word.
    for (let i = 0, at = this.#length; i < ids.length; i++, at++) this.#ids[at] = ids[i]!
    this.#length = end
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
