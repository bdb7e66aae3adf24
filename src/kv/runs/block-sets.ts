/** The block sets of an index by number, so that a holding can refer to one in a single word; numbers are reused. */
import { BlockSet } from './block-set.ts'

/** Memory of an empty set besides its bits. */
const SET_BYTES = 192

export class BlockSets {
  readonly #sets: (BlockSet | undefined)[] = []
  readonly #free: number[] = []

  #bytes = 0

  get bytes(): number {
    return this.#bytes
  }

  /** Creates a set of the blocks [from, to) of a run that begins at `start`; returns its number. */
  create(start: number, from: number, to: number): number {
    const number = this.#free.pop() ?? this.#sets.length
    const set = new BlockSet(start, from, to)
    this.#sets[number] = set
    this.#bytes += set.bytes + SET_BYTES
    return number
  }

  /** Adds [from, to) to a set; returns how many were missing. */
  add(number: number, from: number, to: number): number {
    const set = this.at(number)
    const before = set.bytes
    const added = set.add(from, to)
    this.#bytes += set.bytes - before
    return added
  }

  at(number: number): BlockSet {
    return this.#sets[number] as BlockSet
  }

  release(number: number): void {
    this.#bytes -= this.at(number).bytes + SET_BYTES
    this.#sets[number] = undefined
    this.#free.push(number)
  }
}
