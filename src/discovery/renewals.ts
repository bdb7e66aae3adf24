/**
 * Decides which entries are still renewed, by the watcher's own monotonic clock: an entry is valid for one time to
 * live after its mark (a file's time, a revision) was seen to change. The value of the mark does not matter, so wall
 * clocks may jump on either side.
 *
 * An entry that is seen for the first time is valid for one time to live.
 */
interface Renewal {
  readonly mark: string | number
  readonly changedAtMs: number
}

export class Renewals {
  readonly #ttlMs: number
  readonly #seen = new Map<string, Renewal>()
  #lookedAtMs: number
  /** When any entry was last seen for the first time or renewed. */
  #renewedAtMs: number

  constructor(ttlMs: number, nowMs: number) {
    this.#ttlMs = ttlMs
    this.#lookedAtMs = nowMs
    this.#renewedAtMs = nowMs
  }

  /**
   * Called before each check of all entries. If the watcher, or the whole machine, was suspended, renewals are
   * missing; then every entry is extended by the missed time.
   */
  look(nowMs: number): void {
    const missedMs = nowMs - this.#lookedAtMs
    this.#lookedAtMs = nowMs
    if (missedMs < this.#ttlMs / 2) return
    this.#renewedAtMs += missedMs
    for (const [key, { mark, changedAtMs }] of this.#seen) {
      this.#seen.set(key, { mark, changedAtMs: changedAtMs + missedMs })
    }
  }

  /** True while the entry is valid. An earlier renewal does not shorten a granted time. */
  see(key: string, mark: string | number, nowMs: number): boolean {
    const known = this.#seen.get(key)
    if (known === undefined || known.mark !== mark) {
      this.#renewedAtMs = Math.max(this.#renewedAtMs, nowMs)
      this.#seen.set(key, { mark, changedAtMs: Math.max(nowMs, known?.changedAtMs ?? nowMs) })
      return true
    }
    return nowMs - known.changedAtMs <= this.#ttlMs
  }

  /** For an entry that cannot be read at the moment: true while its last renewal is valid. */
  holds(key: string, nowMs: number): boolean {
    const known = this.#seen.get(key)
    return known !== undefined && nowMs - known.changedAtMs <= this.#ttlMs
  }

  /** Gives these entries a full time to live from now on, because renewals could not be seen for a while. */
  grant(nowMs: number, keys: Iterable<string> = this.#seen.keys()): void {
    for (const key of keys) {
      const known = this.#seen.get(key)
      if (known !== undefined) this.#seen.set(key, { mark: known.mark, changedAtMs: nowMs })
    }
  }

  /** Milliseconds since the last renewal that was seen. */
  ageMs(key: string, nowMs: number): number {
    return nowMs - (this.#seen.get(key)?.changedAtMs ?? nowMs)
  }

  /** Milliseconds since any entry appeared or was renewed; a granted time is no renewal. */
  quietMs(nowMs: number): number {
    return nowMs - this.#renewedAtMs
  }

  forget(key: string): void {
    this.#seen.delete(key)
  }
}
