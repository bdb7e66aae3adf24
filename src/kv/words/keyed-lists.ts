/**
 * Lists of small numbers by a key: adding and removing one takes a few steps, however long its list is.
 *
 * Linked in both directions through words by number, because very many small arrays would burden the garbage collector.
 * A number is in one list at most.
 */
import { PagedWords } from './paged-words.ts'

export class KeyedLists {
  /** By key: the first number of its list. */
  readonly #first = new Map<number, number>()
  /** By number: one more than the next and the previous one of its list; 0: none. */
  readonly #next = new PagedWords()
  readonly #previous = new PagedWords()

  /** The first number of a list, or -1. */
  firstOf(key: number): number {
    return this.#first.get(key) ?? -1
  }

  /** The next number of the same list, or -1. */
  after(number: number): number {
    return this.#next.get(number) - 1
  }

  add(key: number, number: number): void {
    this.#next.reserve(number + 1)
    this.#previous.reserve(number + 1)
    const second = this.firstOf(key)
    this.#next.set(number, second + 1)
    this.#previous.set(number, 0)
    if (second >= 0) this.#previous.set(second, number + 1)
    this.#first.set(key, number)
  }

  /** Removes a number from its list; returns whether the list is empty now. */
  remove(key: number, number: number): boolean {
    const next = this.after(number)
    const previous = this.#previous.get(number) - 1
    if (next >= 0) this.#previous.set(next, previous + 1)
    if (previous >= 0) this.#next.set(previous, next + 1)
    else if (next >= 0) this.#first.set(key, next)
    else return this.#first.delete(key)
    return false
  }
}
