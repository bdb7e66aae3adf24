/**
 * The owners of a loose block, named by the ref in its word (`loose-word.ts`): one stay, a set of stays in the ref
 * itself, or a list of stays in memory.
 *
 * Sets are for stays with small numbers, which are all of them in a small fleet: reading a list is one more wait for
 * memory. Owns the lists:
 *
 *   | length << 5 (size class in the low 5 bits) | stay | stay | … |
 */
import { bitCount } from '../words/bit-count.ts'
import { WordPool } from '../words/word-pool.ts'
import { firstIn, isSet, listOf, refOf, SET_EMPTY, SET_STAYS, setOf } from './loose-word.ts'

const CLASS_BITS = 5
const CLASS_MASK = (1 << CLASS_BITS) - 1
const CLASS_FIRST = 2

const bitOf = (owner: number): number => 1 << (owner - 1)

export class OwnerLists {
  readonly #pool = new WordPool()

  get bytes(): number {
    return this.#pool.bytes
  }

  /** Removes all lists. */
  clear(): void {
    this.#pool.clear()
  }

  lengthOf(ref: number): number {
    if (ref > 0) return 1
    return isSet(ref) ? bitCount(setOf(ref)) : this.#lengthAt(listOf(ref))
  }

  ownerAt(ref: number, i: number): number {
    if (ref > 0) return ref
    if (!isSet(ref)) {
      const at = listOf(ref)
      return this.#pool.chunkOf(at)[this.#pool.offsetOf(at) + 1 + i] as number
    }
    let left = setOf(ref)
    for (let skipped = 0; skipped < i; skipped++) left &= left - 1
    return firstIn(left)
  }

  has(ref: number, owner: number): boolean {
    if (ref > 0) return ref === owner
    if (isSet(ref)) return owner <= SET_STAYS && (ref & bitOf(owner)) !== 0
    return this.#indexOf(listOf(ref), owner) >= 0
  }

  /** Adds an owner that is not there; returns the new ref. */
  add(ref: number, owner: number): number {
    if (owner <= SET_STAYS) {
      if (isSet(ref)) return ref | bitOf(owner)
      if (ref > 0 && ref <= SET_STAYS) return SET_EMPTY | bitOf(ref) | bitOf(owner)
    }
    if (ref > 0) return refOf(this.#create(ref, owner))
    if (!isSet(ref)) return refOf(this.#append(listOf(ref), owner))
    let at = this.#create(this.ownerAt(ref, 0), this.ownerAt(ref, 1))
    for (let i = 2; i < this.lengthOf(ref); i++) at = this.#append(at, this.ownerAt(ref, i))
    return refOf(this.#append(at, owner))
  }

  /** Removes one of several owners; returns the new ref. */
  remove(ref: number, owner: number): number {
    if (isSet(ref)) {
      const left = setOf(ref) & ~bitOf(owner)
      return (left & (left - 1)) === 0 ? firstIn(left) : SET_EMPTY | left
    }
    const at = listOf(ref)
    const words = this.#pool.chunkOf(at)
    const k = this.#pool.offsetOf(at)
    const length = ((words[k] as number) >> CLASS_BITS) - 1
    words[k + 1 + this.#indexOf(at, owner)] = words[k + 1 + length] as number
    words[k] = (length << CLASS_BITS) | ((words[k] as number) & CLASS_MASK)
    if (length > 1) return ref
    const last = words[k + 1] as number
    this.release(ref)
    return last
  }

  /** The owners are no longer needed. */
  release(ref: number): void {
    if (ref > 0 || isSet(ref)) return
    const at = listOf(ref)
    const header = this.#pool.chunkOf(at)[this.#pool.offsetOf(at)] as number
    this.#pool.release(at, header & CLASS_MASK)
  }

  #create(first: number, second: number): number {
    const at = this.#pool.take(CLASS_FIRST)
    const words = this.#pool.chunkOf(at)
    const k = this.#pool.offsetOf(at)
    words[k] = (2 << CLASS_BITS) | CLASS_FIRST
    words[k + 1] = first
    words[k + 2] = second
    return at
  }

  #lengthAt(at: number): number {
    return (this.#pool.chunkOf(at)[this.#pool.offsetOf(at)] as number) >> CLASS_BITS
  }

  /** Adds an owner; returns the list's (possibly new) address. */
  #append(at: number, owner: number): number {
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

  #indexOf(at: number, owner: number): number {
    const words = this.#pool.chunkOf(at)
    const first = this.#pool.offsetOf(at) + 1
    const last = first + ((words[first - 1] as number) >> CLASS_BITS)
    for (let k = first; k < last; k++) if (words[k] === owner) return k - first
    return -1
  }
}
