/**
 * Sequences waiting for admission: higher priority first, within a priority in order of arrival, preempted ones
 * before all others.
 */
import type { SimSequence } from './sim-sequence.ts'

/** Number of vacated places that are removed together. */
const HEAD_MAX = 32

export class WaitingQueue<Owner> implements Iterable<SimSequence<Owner>> {
  #items: SimSequence<Owner>[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  get first(): SimSequence<Owner> | undefined {
    return this.#items[this.#head]
  }

  push(sequence: SimSequence<Owner>): void {
    let at = this.#items.length
    while (at > this.#head) {
      const before = this.#items[at - 1]!
      if (before.state === 'preempted' || before.priority >= sequence.priority) break
      at -= 1
    }
    if (at === this.#items.length) this.#items.push(sequence)
    else this.#items.splice(at, 0, sequence)
  }

  pushFront(sequence: SimSequence<Owner>): void {
    if (this.#head > 0) this.#items[--this.#head] = sequence
    else this.#items.unshift(sequence)
  }

  shift(): void {
    this.#head += 1
    // Vacated places are removed soon, because each refers to a whole request with its prompt.
    const isSmall = this.#head < HEAD_MAX || 2 * this.#head < this.#items.length
    if (isSmall && this.#head < this.#items.length) return
    this.#items.splice(0, this.#head)
    this.#head = 0
  }

  /** Moves the sequence with the highest score to the front (the earliest of equals); preempted ones stay first. */
  promoteBest(score: (sequence: SimSequence<Owner>) => number): void {
    if (this.first?.state === 'preempted') return
    let best = this.#head
    let bestScore = -Infinity
    for (let i = this.#head; i < this.#items.length; i++) {
      const value = score(this.#items[i]!)
      if (value > bestScore) [best, bestScore] = [i, value]
    }
    if (best === this.#head) return
    const [sequence] = this.#items.splice(best, 1)
    this.#items.splice(this.#head, 0, sequence!)
  }

  remove(sequence: SimSequence<Owner>): boolean {
    const at = this.#items.indexOf(sequence, this.#head)
    if (at < 0) return false
    this.#items.splice(at, 1)
    return true
  }

  *[Symbol.iterator](): Iterator<SimSequence<Owner>> {
    for (let i = this.#head; i < this.#items.length; i++) yield this.#items[i]!
  }
}
