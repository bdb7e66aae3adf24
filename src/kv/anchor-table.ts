/**
 * From a block's hash to its position, for those blocks that are anchored.
 *
 * Owns: an open-addressing table of 4-byte slots (position + 1), checked against the arena. It is cut in 128 segments
 * that grow one at a time, at different loads, so that no single insertion has to move millions of slots.
 * Invariant: a slot names a position exactly when the arena marks that block as anchored.
 */
import type { BlockArena } from './block-arena.ts'

const SEGMENT_BITS = 7
const SEGMENTS = 1 << SEGMENT_BITS
const SEGMENT_SHIFT = 32 - SEGMENT_BITS
const SLOTS_MIN = 8
const TOMB = -1

const mix = (low: number, high: number): number =>
  Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1)

export class AnchorTable {
  readonly #arena: BlockArena
  readonly #segments: Int32Array[]
  readonly #live = new Int32Array(SEGMENTS)
  /** Live slots and tombs. */
  readonly #used = new Int32Array(SEGMENTS)
  #count = 0
  #slots = SEGMENTS * SLOTS_MIN

  constructor(arena: BlockArena) {
    this.#arena = arena
    this.#segments = Array.from({ length: SEGMENTS }, () => new Int32Array(SLOTS_MIN))
  }

  get count(): number {
    return this.#count
  }

  get bytes(): number {
    return 4 * this.#slots
  }

  /** Position of an anchored block, or -1. */
  lookup(low: number, high: number): number {
    const hash = mix(low, high)
    const slots = this.#segments[hash >>> SEGMENT_SHIFT] as Int32Array
    const { hashes } = this.#arena
    const mask = slots.length - 1
    for (let i = hash & mask; ; i = (i + 1) & mask) {
      const value = slots[i] as number
      if (value === 0) return -1
      if (value === TOMB) continue
      const at = 2 * (value - 1)
      if (hashes[at] === low && hashes[at + 1] === high) return value - 1
    }
  }

  /** Anchors the block at a position; a no-op when it is. */
  add(position: number): void {
    const { anchored } = this.#arena
    const bits = anchored[position >> 5] as number
    const bit = 1 << (position & 31)
    if ((bits & bit) !== 0) return
    anchored[position >> 5] = bits | bit
    this.#insert(position)
  }

  /** Forgets the anchor of the block at a position; a no-op when there is none. */
  drop(position: number): void {
    const { anchored } = this.#arena
    const bits = anchored[position >> 5] as number
    const bit = 1 << (position & 31)
    if ((bits & bit) === 0) return
    anchored[position >> 5] = bits & ~bit
    this.#delete(position)
  }

  /** Forgets the anchors of the positions [from, to). */
  dropRange(from: number, to: number): void {
    const { anchored } = this.#arena
    while (from < to) {
      const word = from >> 5
      const stop = Math.min(to, (word + 1) << 5)
      const range = stop - from === 32 ? -1 : ((1 << (stop - from)) - 1) << (from & 31)
      const bits = anchored[word] as number
      if ((bits & range) !== 0) {
        anchored[word] = bits & ~range
        for (let left = bits & range; left !== 0; left &= left - 1) {
          this.#delete((word << 5) + 31 - Math.clz32(left & -left))
        }
      }
      from = stop
    }
  }

  #insert(position: number): void {
    const { hashes } = this.#arena
    const hash = mix(hashes[2 * position] as number, hashes[2 * position + 1] as number)
    const segment = hash >>> SEGMENT_SHIFT
    // Between 1/2 and 5/8, so that the segments of a large table do not all grow at once.
    const { length } = this.#segments[segment] as Int32Array
    if (8 * ((this.#used[segment] as number) + 1) > length * (4 + segment / SEGMENTS)) {
      this.#rebuild(segment)
    }
    const slots = this.#segments[segment] as Int32Array
    const mask = slots.length - 1
    let i = hash & mask
    while ((slots[i] as number) > 0) i = (i + 1) & mask
    if (slots[i] === 0) this.#used[segment] = (this.#used[segment] as number) + 1
    slots[i] = position + 1
    this.#live[segment] = (this.#live[segment] as number) + 1
    this.#count += 1
  }

  #delete(position: number): void {
    const { hashes } = this.#arena
    const hash = mix(hashes[2 * position] as number, hashes[2 * position + 1] as number)
    const segment = hash >>> SEGMENT_SHIFT
    const slots = this.#segments[segment] as Int32Array
    const mask = slots.length - 1
    let i = hash & mask
    while (slots[i] !== position + 1) i = (i + 1) & mask
    if (slots[(i + 1) & mask] === 0) {
      slots[i] = 0
      this.#used[segment] = (this.#used[segment] as number) - 1
    } else slots[i] = TOMB
    const live = (this.#live[segment] as number) - 1
    this.#live[segment] = live
    this.#count -= 1
    // Memory is given back when a segment has become a tenth full.
    if (slots.length > SLOTS_MIN && 10 * live < slots.length) this.#rebuild(segment)
  }

  #rebuild(segment: number): void {
    const old = this.#segments[segment] as Int32Array
    const live = this.#live[segment] as number
    let length = SLOTS_MIN
    while (length < 3 * (live + 1)) length *= 2
    const slots = new Int32Array(length)
    const { hashes } = this.#arena
    const mask = length - 1
    for (let k = 0; k < old.length; k++) {
      const value = old[k] as number
      if (value <= 0) continue
      const at = 2 * (value - 1)
      let i = mix(hashes[at] as number, hashes[at + 1] as number) & mask
      while (slots[i] !== 0) i = (i + 1) & mask
      slots[i] = value
    }
    this.#segments[segment] = slots
    this.#used[segment] = live
    this.#slots += length - old.length
  }
}
