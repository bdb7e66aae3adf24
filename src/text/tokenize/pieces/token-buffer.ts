/**
 * A growing list of token ids that is returned as a `Uint32Array`. A tokenizer reuses one for all texts: external
 * memory that is freed with every prompt would trigger garbage collections.
 */
const KEPT_IDS_MIN = 1024
const KEPT_IDS_MAX = 65_536
const FEW_IDS = 64

export class TokenBuffer {
  #ids: Uint32Array
  #length = 0

  constructor(capacity = KEPT_IDS_MIN) {
    this.#ids = new Uint32Array(Math.max(16, capacity))
  }

  push(id: number): void {
    if (this.#length === this.#ids.length) this.#grow(this.#length + 1)
    this.#ids[this.#length++] = id
  }

  pushRange(ids: Uint32Array, start: number, end: number): void {
    const length = this.#length + end - start
    if (length > this.#ids.length) this.#grow(length)
    // For a few ids a loop is faster than `set`.
    if (end - start > FEW_IDS) this.#ids.set(ids.subarray(start, end), this.#length)
    else {
      const own = this.#ids
      for (let i = start, at = this.#length; i < end; i++, at++) own[at] = ids[i]!
    }
    this.#length = length
  }

  get length(): number {
    return this.#length
  }

  /** Copies the ids that were appended since the buffer had `start` ids. */
  copyTo(ids: Uint32Array, at: number, start: number): void {
    const own = this.#ids
    for (let from = start, to = at; from < this.#length; from++, to++) ids[to] = own[from]!
  }

  /** A copy of the ids that were appended since the buffer had `start` ids. */
  since(start: number): Uint32Array {
    return this.#ids.slice(start, this.#length)
  }

  /** A copy of all ids; shrinks the buffer if a very long text has enlarged it. */
  finish(): Uint32Array {
    const ids = this.#ids.slice(0, this.#length)
    if (this.#ids.length > KEPT_IDS_MAX) this.#ids = new Uint32Array(KEPT_IDS_MIN)
    this.#length = 0
    return ids
  }

  /** Empties the buffer. */
  clear(): this {
    this.#length = 0
    return this
  }

  #grow(needed: number): void {
    const wider = new Uint32Array(Math.max(needed, this.#ids.length * 2))
    wider.set(this.#ids)
    this.#ids = wider
  }
}
