/**
 * The order of one rank's numbered batches: what is next, what is missing, what began anew.
 *
 * Owns: the decision alone. An index with a hole in it is worse than none: what cannot be replayed is cleared.
 */
export type Arrival =
  /** The next one: apply it. */
  | 'apply'
  /** Known already: drop it. */
  | 'old'
  /** Some before it are missing: ask for them from `wanted` on. */
  | 'gap'
  /** The publisher counts anew: forget everything, ask from 0 on. */
  | 'restart'

export class EventSequence {
  #next = 0

  /** The number of the batch that is expected. */
  get wanted(): number {
    return this.#next
  }

  /** `isReplay`: it was asked for, and may begin later than asked, as a publisher forgets its oldest ones. */
  arrives(sequence: number, isReplay: boolean): Arrival {
    if (sequence === this.#next) return 'apply'
    if (isReplay) return sequence < this.#next ? 'old' : 'gap'
    if (sequence > this.#next) return 'gap'
    // A live publisher never repeats itself.
    return 'restart'
  }

  applied(sequence: number): void {
    this.#next = sequence + 1
  }

  restart(): void {
    this.#next = 0
  }
}
