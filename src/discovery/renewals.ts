/**
 * Who still renews, judged by the watcher's own monotonic clock: an entry is valid for a time to live from the moment
 * at which its mark was seen to change. What the mark says (a file's time, a revision) decides nothing; wall clocks may
 * jump on either side.
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

  constructor(ttlMs: number, nowMs: number) {
    this.#ttlMs = ttlMs
    this.#lookedAtMs = nowMs
  }

  /**
   * Before each look at all entries. A watcher that was suspended has not seen renewals; perhaps the whole machine was,
   * and no worker renewed. Then everybody gets the time that was missed.
   */
  look(nowMs: number): void {
    const missedMs = nowMs - this.#lookedAtMs
    this.#lookedAtMs = nowMs
    if (missedMs < this.#ttlMs / 2) return
    for (const [key, { mark, changedAtMs }] of this.#seen) {
      this.#seen.set(key, { mark, changedAtMs: changedAtMs + missedMs })
    }
  }

  /** True while the entry is valid. What was granted is not taken back by a renewal that comes sooner. */
  see(key: string, mark: string | number, nowMs: number): boolean {
    const known = this.#seen.get(key)
    if (known === undefined || known.mark !== mark) {
      this.#seen.set(key, { mark, changedAtMs: Math.max(nowMs, known?.changedAtMs ?? nowMs) })
      return true
    }
    return nowMs - known.changedAtMs <= this.#ttlMs
  }

  /** The entry cannot be seen at the moment; true as long as its last renewal holds. */
  holds(key: string, nowMs: number): boolean {
    const known = this.#seen.get(key)
    return known !== undefined && nowMs - known.changedAtMs <= this.#ttlMs
  }

  /** Everybody has a whole time to live from now on: renewals could not be seen for a while. */
  grant(nowMs: number): void {
    for (const [key, { mark }] of this.#seen) this.#seen.set(key, { mark, changedAtMs: nowMs })
  }

  /** Since the last renewal that was seen. */
  ageMs(key: string, nowMs: number): number {
    return nowMs - (this.#seen.get(key)?.changedAtMs ?? nowMs)
  }

  forget(key: string): void {
    this.#seen.delete(key)
  }
}
