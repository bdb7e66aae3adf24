/**
 * Ids of a trace's blocks: those in the trace, and new ones for blocks that are shared with no other request.
 *
 * An id of a request is a number ≥ 0. Other ids of a trace (64-bit hashes, negative numbers) and blocks without an
 * id get the next negative number.
 */
const LARGE = /^-?\d{16,}$/

export class TraceIds {
  #next = -1
  readonly #others = new Map<string, number>()

  /** Null: not a list of ids. */
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

  /** Extended to at least as many ids as the prompt has blocks. */
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
