/** The decode worker of each session; the oldest session is dropped when there are too many. */
export class SessionAffinity {
  readonly #max: number
  readonly #rankOf = new Map<string, number>()

  constructor(max: number) {
    this.#max = max
  }

  of(sessionKey: string | undefined): number | undefined {
    return sessionKey === undefined ? undefined : this.#rankOf.get(sessionKey)
  }

  record(sessionKey: string, rank: number): void {
    this.#rankOf.delete(sessionKey)
    this.#rankOf.set(sessionKey, rank)
    const oldest = this.#rankOf.keys().next().value
    if (this.#rankOf.size > this.#max && oldest !== undefined) this.#rankOf.delete(oldest)
  }

  evict(sessionKey: string): void {
    this.#rankOf.delete(sessionKey)
  }

  evictRank(rank: number): void {
    for (const [sessionKey, affine] of this.#rankOf) {
      if (affine === rank) this.#rankOf.delete(sessionKey)
    }
  }
}
