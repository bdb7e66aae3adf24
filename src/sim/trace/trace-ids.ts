/**
 * Ids of the blocks of a trace: those that it has, and ones for what is shared with nobody.
 *
 * An id of a request is a number from 0 on. What a trace has beside such numbers (hashes of 64 bits, below zero) gets the next
 * number below zero, as does a block without an id.
 */
const LARGE = /^-?\d{16,}$/

export class TraceIds {
  #next = -1
  readonly #others = new Map<string, number>()

  /** Null: this is no list of ids. */
  read(ids: unknown): number[] | null {
    if (!Array.isArray(ids)) return null
    const read: number[] = []
    for (const id of ids as unknown[]) {
      if (Number.isSafeInteger(id) && (id as number) >= 0) read.push(id as number)
      else if (Number.isInteger(id) || (typeof id === 'string' && LARGE.test(id)))
        read.push(this.#other(String(id)))
      else return null
    }
    return read
  }

  /** As many as the prompt has blocks, or more. */
  filledUp(ids: readonly number[], inputTokens: number, blockTokens: number): number[] {
    const missing = Math.max(0, Math.ceil(inputTokens / blockTokens) - ids.length)
    return [...ids, ...Array.from({ length: missing }, () => this.#next--)]
  }

  #other(id: string): number {
    const known = this.#others.get(id) ?? this.#next--
    this.#others.set(id, known)
    return known
  }
}
