/** Ids of messages that were received, so that a message that arrives over several ways counts once. */
const IDS_MAX = 4_096
const ID_LENGTH_MAX = 256

/** Bounded: the oldest id is dropped. */
export class SeenIds {
  readonly #ids = new Set<string>()

  /** An id that is no text, or too long to be kept, is none that a frontend makes. */
  static isId(id: unknown): id is string {
    return typeof id === 'string' && id.length <= ID_LENGTH_MAX
  }

  /** False: it was added before. */
  add(id: string): boolean {
    if (this.#ids.has(id)) return false
    this.#ids.add(id)
    if (this.#ids.size > IDS_MAX) {
      const [oldest] = this.#ids
      if (oldest !== undefined) this.#ids.delete(oldest)
    }
    return true
  }
}
