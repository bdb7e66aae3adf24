/**
 * The order of one rank's numbered batches: which is next, which are missing, whether the publisher restarted.
 *
 * Owns: only the decision. An index with missing events is worse than an empty one, so a gap that cannot be replayed
 * clears it.
 */
export type Arrival =
  /** It is the next one: apply it. */
  | 'apply'
  /** It is known already: drop it. */
  | 'old'
  /** Earlier ones are missing: request them from `wanted` on. */
  | 'gap'
  /** The publisher restarted its numbers: clear everything, request from 0 on. */
  | 'restart'

export class EventSequence {
  #next = 0

  /** The number of the next expected batch. */
  get wanted(): number {
    return this.#next
  }

  /**
   * `isReplay`: it was requested, and may start later than requested, because a publisher drops its oldest batches.
   */
  arrives(sequence: number, isReplay: boolean): Arrival {
    if (sequence === this.#next) return 'apply'
    if (isReplay) return sequence < this.#next ? 'old' : 'gap'
    if (sequence > this.#next) return 'gap'
    // A live publisher never repeats a batch.
    return 'restart'
  }

  applied(sequence: number): void {
    this.#next = sequence + 1
  }

  restart(): void {
    this.#next = 0
  }
}
