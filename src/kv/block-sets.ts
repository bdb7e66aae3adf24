/**
 * The block sets of an index by number, so that a holding can name one in a word; numbers are reused.
 */
import { BlockSet } from './block-set.ts'

/** What an empty set takes besides its bits. */
const SET_BYTES = 192

export class BlockSets {
  readonly #sets: (BlockSet | undefined)[] = []
  readonly #free: number[] = []

  get bytes(): number {
    return this.#sets.reduce((sum, set) => sum + (set === undefined ? 0 : set.bytes + SET_BYTES), 0)
  }

  /** A set of the blocks [from, to) of a run that begins at `start`. */
  create(start: number, from: number, to: number): number {
    const number = this.#free.pop() ?? this.#sets.length
    this.#sets[number] = new BlockSet(start, from, to)
    return number
  }

  at(number: number): BlockSet {
    return this.#sets[number] as BlockSet
  }

  release(number: number): void {
    this.#sets[number] = undefined
    this.#free.push(number)
  }
}
