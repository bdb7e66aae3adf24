/**
 * The owners of loose blocks: each stay of a holder in the index has a number, so that removing a holder is one
 * change (its blocks then refer to an ended stay).
 *
 * Owns stay numbers (from 1), the holder of each stay, and how many blocks refer to it. The number of an ended stay
 * is reused once no block refers to it.
 */
import { PagedWords } from '../words/paged-words.ts'

export class Tenancies {
  /**
   * By stay number: the holder; -1: the stay has ended; below -1: the number is free, and the next free one is -2 -
   * value.
   */
  #holders = new PagedWords()
  #held = new PagedWords()
  /** By holder: its stay number, or 0. */
  #numbers = new PagedWords()
  #top = 1
  /** The first free number, or 0. A linked list, because an array of a million numbers would be copied when it grows. */
  #free = 0
  /** Number of (owner, block) pairs of current stays (`live`) and of ended ones (`dead`). */
  live = 0
  dead = 0

  get bytes(): number {
    return this.#holders.bytes + this.#held.bytes + this.#numbers.bytes
  }

  /** The holder of a stay; below 0: none. */
  holderOf(number: number): number {
    return this.#holders.get(number)
  }

  /** The stay number of a holder, or 0. */
  numberOf(holder: number): number {
    return this.#numbers.at(holder)
  }

  /** Number of blocks that refer to a stay. */
  blocksOf(number: number): number {
    return this.#held.get(number)
  }

  /** The stay number of a holder; a new stay begins if it has none. */
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

  /** `count` more blocks refer to the stay, which has not ended. */
  gained(number: number, count = 1): void {
    this.#held.add(number, count)
    this.live += count
  }

  /** `count` fewer blocks refer to the stay. */
  lost(number: number, count = 1): void {
    const left = this.#held.add(number, -count)
    if (this.#holders.get(number) !== -1) this.live -= count
    else {
      this.dead -= count
      if (left === 0) this.#release(number)
    }
  }

  /** Like `lost`, if the stay certainly has not ended. */
  lostOfLive(number: number, count: number): void {
    this.#held.add(number, -count)
    this.live -= count
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

  /** Called when no block is left: resets everything. */
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
