/**
 * The owners of loose blocks that have more than one: short lists of stays.
 *
 *   | length << 5 (size class in the low 5 bits) | stay | stay | … |
 */
import { WordPool } from '../words/word-pool.ts'

const CLASS_BITS = 5
const CLASS_MASK = (1 << CLASS_BITS) - 1
const CLASS_FIRST = 2

export class OwnerLists {
  readonly #pool = new WordPool()

  get bytes(): number {
    return this.#pool.bytes
  }

  /** Removes all lists. */
  clear(): void {
    this.#pool.clear()
  }

  create(first: number, second: number): number {
    const at = this.#pool.take(CLASS_FIRST)
    const words = this.#pool.chunkOf(at)
    const k = this.#pool.offsetOf(at)
    words[k] = (2 << CLASS_BITS) | CLASS_FIRST
    words[k + 1] = first
    words[k + 2] = second
    return at
  }

  lengthOf(at: number): number {
    return (this.#pool.chunkOf(at)[this.#pool.offsetOf(at)] as number) >> CLASS_BITS
  }

  ownerAt(at: number, i: number): number {
    return this.#pool.chunkOf(at)[this.#pool.offsetOf(at) + 1 + i] as number
  }

  has(at: number, owner: number): boolean {
    return this.#indexOf(at, owner) >= 0
  }

  /** Adds an owner; returns the list's (possibly new) address. */
  add(at: number, owner: number): number {
    const k = this.#pool.offsetOf(at)
    let words = this.#pool.chunkOf(at)
    const length = (words[k] as number) >> CLASS_BITS
    const sizeClass = (words[k] as number) & CLASS_MASK
    if (length + 1 < 1 << sizeClass) {
      words[k] = ((length + 1) << CLASS_BITS) | sizeClass
      words[k + 1 + length] = owner
      return at
    }
    const next = this.#pool.take(sizeClass + 1)
    const target = this.#pool.offsetOf(next)
    words = this.#pool.chunkOf(next)
    words.set(this.#pool.chunkOf(at).subarray(k, k + 1 + length), target)
    this.#pool.release(at, sizeClass)
    words[target] = ((length + 1) << CLASS_BITS) | (sizeClass + 1)
    words[target + 1 + length] = owner
    return next
  }

  /** Removes an owner that is in the list; returns how many are left. */
  remove(at: number, owner: number): number {
    const words = this.#pool.chunkOf(at)
    const k = this.#pool.offsetOf(at)
    const length = ((words[k] as number) >> CLASS_BITS) - 1
    words[k + 1 + this.#indexOf(at, owner)] = words[k + 1 + length] as number
    words[k] = (length << CLASS_BITS) | ((words[k] as number) & CLASS_MASK)
    return length
  }

  release(at: number): void {
    const header = this.#pool.chunkOf(at)[this.#pool.offsetOf(at)] as number
    this.#pool.release(at, header & CLASS_MASK)
  }

  #indexOf(at: number, owner: number): number {
    const words = this.#pool.chunkOf(at)
    const first = this.#pool.offsetOf(at) + 1
    const last = first + ((words[first - 1] as number) >> CLASS_BITS)
    for (let k = first; k < last; k++) if (words[k] === owner) return k - first
    return -1
  }
}
