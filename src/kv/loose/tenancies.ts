/**
 * Who owns loose blocks: a number for each stay of a holder, so that forgetting a holder is one change.
 *
 * Owns: numbers from 1 on, the holder of each while it stays, and how many blocks name it. The number of a stay that has
 * ended is given out again when no block names it any more.
 */
import { PagedWords } from '../words/paged-words.ts'

export class Tenancies {
  /** By number: the holder; -1 when the stay has ended; below, when the number is free: -2 - the next free one. */
  #holders = new PagedWords()
  #held = new PagedWords()
  /** By holder: the number, or 0. */
  #numbers = new PagedWords()
  #top = 1
  /** The first free number, or 0: a list of a million numbers would be copied while it grows. */
  #free = 0
  /** (owner, block) pairs of stays that go on, and of those that have ended. */
  live = 0
  dead = 0

  get bytes(): number {
    return this.#holders.bytes + this.#held.bytes + this.#numbers.bytes
  }

  /** The holder of a number; below 0: none. */
  holderOf(number: number): number {
    return this.#holders.get(number)
  }

  /** The number of a holder's stay, or 0. */
  numberOf(holder: number): number {
    return holder < this.#numbers.length ? this.#numbers.get(holder) : 0
  }

  /** The number of a holder's stay, which begins now if there is none. */
  enter(holder: number): number {
    this.#numbers.reserve(holder + 1)
    const known = this.#numbers.get(holder)
    if (known !== 0) return known
    const number = this.#free > 0 ? this.#free : this.#top++
    if (number === this.#free) this.#free = -2 - this.#holders.get(number)
    this.#holders.reserve(number + 1)
    this.#held.reserve(number + 1)
    this.#holders.set(number, holder)
    this.#numbers.set(holder, number)
    return number
  }

  /** So many more blocks name the stay, which goes on. */
  gained(number: number, count = 1): void {
    this.#held.add(number, count)
    this.live += count
  }

  /** So many blocks less name the stay. */
  lost(number: number, count = 1): void {
    const left = this.#held.add(number, -count)
    if (this.#holders.get(number) !== -1) this.live -= count
    else {
      this.dead -= count
      if (left === 0) this.#release(number)
    }
  }

  leave(holder: number): void {
    const number = this.numberOf(holder)
    if (number === 0) return
    const held = this.#held.get(number)
    this.#numbers.set(holder, 0)
    this.#holders.set(number, -1)
    this.live -= held
    this.dead += held
    if (held === 0) this.#release(number)
  }

  /** No block is left: all stays are as if they had never begun. */
  clear(): void {
    this.#holders = new PagedWords()
    this.#held = new PagedWords()
    this.#numbers = new PagedWords()
    this.#top = 1
    this.#free = 0
    this.live = 0
    this.dead = 0
  }

  #release(number: number): void {
    this.#holders.set(number, -2 - this.#free)
    this.#free = number
  }
}
