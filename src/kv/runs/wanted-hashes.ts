/**
 * The hashes of an event that have not been found yet: a small table that fits into the CPU cache.
 *
 * The same object is reused for all events.
 */
import { mixHash } from './anchor-table.ts'

const SLOTS_MIN = 1024
/** Bits of the filter per slot. */
const FILTER_BITS = 8

export class WantedHashes {
  /** Signed words, because V8 does not box them. */
  #words: Int32Array = new Int32Array(0)
  /** By hash: index of a hash + 1; negative once it has been taken. */
  #slots = new Int32Array(SLOTS_MIN)
  /** Only as many slots are used as the event needs. */
  #mask = 0
  #shift = 0
  /** A bit for each low half that is wanted: nearly all blocks of a search are none, and are rejected by one read. */
  #filter = new Int32Array((FILTER_BITS * SLOTS_MIN) >> 5)
  #filterMask = 0
  /** Number of hashes that have not been taken. */
  left = 0

  /** Fills the table with the hashes from index `from` on. */
  reset(hashes: Uint32Array, from: number): void {
    const count = hashes.length >> 1
    let length = SLOTS_MIN
    while (length < 3 * (count - from)) length *= 2
    const filterWords = (FILTER_BITS * length) >> 5
    if (length <= this.#slots.length) {
      this.#slots.fill(0, 0, length)
      this.#filter.fill(0, 0, filterWords)
    } else {
      this.#slots = new Int32Array(length)
      this.#filter = new Int32Array(filterWords)
    }
    this.#filterMask = filterWords - 1
    const slots = this.#slots
    const filter = this.#filter
    const mask = length - 1
    this.#mask = mask
    this.#shift = Math.clz32(length) + 1
    const words = new Int32Array(hashes.buffer, hashes.byteOffset, hashes.length)
    this.#words = words
    this.left = count - from
    for (let k = from; k < count; k++) {
      const low = words[2 * k] as number
      let slot = this.#home(low, words[2 * k + 1] as number)
      while (slots[slot] !== 0) slot = (slot + 1) & mask
      slots[slot] = k + 1
      const word = (low >>> 5) & this.#filterMask
      filter[word] = (filter[word] as number) | (1 << (low & 31))
    }
  }

  #home(low: number, high: number): number {
    return mixHash(low, high) >>> this.#shift
  }

  /** Whether hash number `k` has not been taken. */
  isLeft(k: number): boolean {
    const slots = this.#slots
    const mask = this.#mask
    let slot = this.#home(this.#words[2 * k] as number, this.#words[2 * k + 1] as number)
    while (slots[slot] !== k + 1 && slots[slot] !== -1 - k) slot = (slot + 1) & mask
    return slots[slot] === k + 1
  }

  /** Whether a hash (signed halves) is wanted. */
  has(low: number, high: number): boolean {
    const bits = this.#filter[(low >>> 5) & this.#filterMask] as number
    return ((bits >>> (low & 31)) & 1) !== 0 && this.#find(low, high) >= 0
  }

  /** Takes a hash (signed halves); false if it is not wanted. */
  take(low: number, high: number): boolean {
    const slot = this.#find(low, high)
    if (slot < 0) return false
    this.#slots[slot] = -(this.#slots[slot] as number)
    this.left -= 1
    return true
  }

  #find(low: number, high: number): number {
    const slots = this.#slots
    const words = this.#words
    const mask = this.#mask
    for (let slot = this.#home(low, high); ; slot = (slot + 1) & mask) {
      const k = (slots[slot] as number) - 1
      if (k === -1) return -1
      if (k >= 0 && words[2 * k] === low && words[2 * k + 1] === high) return slot
    }
  }
}
