/**
 * From a block's hash to its position, for those blocks that are anchored.
 *
 * Owns: an open-addressing table of 4-byte slots. A slot is the block's position + 1 and, in the bits above, as much of
 * its hash as fits: what is not in the table is refused without a look at the arena. A table that has become too full
 * or too empty is replaced step by step, a few slots with each change, so that no call has to move millions.
 * Invariant: a slot names a position exactly when the arena marks that block as anchored.
 */
import { ANCHORED, MARK_STRIDE } from './block-arena.ts'
import type { BlockArena } from './block-arena.ts'
import { bitsBetween } from './block-set.ts'

const SLOTS_MIN = 256
/** A slot whose block has gone, in the middle of a chain of probes. */
const TOMB = -1
/** Slots of the old table that each change moves, at least; and the share of the new one's slots that may change until then. */
const STEP = 4
const MOVING_SHARE = 4
const NONE = new Int32Array(0)

/** Spreads a hash, which an engine may have chosen badly. Signed or unsigned halves. */
export const mixHash = (low: number, high: number): number =>
  Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1)

export class AnchorTable {
  readonly #arena: BlockArena
  /** Bits of a slot that hold the position + 1; no position fills them with ones. */
  readonly #bits: number
  #slots = new Int32Array(SLOTS_MIN)
  #shift = Math.clz32(SLOTS_MIN) + 1
  /** Slots that are not empty, tombs included. */
  #used = 0
  #count = 0
  /** The table before, while it is being moved, and how far that is. */
  #old = NONE
  #oldShift = 0
  #moved = 0

  constructor(arena: BlockArena) {
    this.#arena = arena
    this.#bits = 32 - Math.clz32((arena.words.length >> 1) + 1)
  }

  get count(): number {
    return this.#count
  }

  get bytes(): number {
    return this.#slots.byteLength + this.#old.byteLength
  }

  /** Position of an anchored block (signed halves of its hash), or -1. */
  lookup(low: number, high: number): number {
    const hash = mixHash(low, high)
    const position = this.#probe(this.#slots, hash >>> this.#shift, hash, low, high)
    if (position >= 0 || this.#old.length === 0) return position
    return this.#probe(this.#old, hash >>> this.#oldShift, hash, low, high)
  }

  /** Reads the slot that a search for this hash (signed halves) begins with, so that it lies in the cache. */
  touch(low: number, high: number): number {
    return this.#slots[mixHash(low, high) >>> this.#shift] as number
  }

  /** The first position that may have this hash (signed halves), or -1; no block is read. */
  candidate(low: number, high: number): number {
    const hash = mixHash(low, high)
    const slots = this.#slots
    const bits = this.#bits
    const tag = hash << bits
    const mask = slots.length - 1
    for (let i = hash >>> this.#shift; ; i = (i + 1) & mask) {
      const slot = slots[i] as number
      if (slot === 0) return -1
      if ((slot ^ tag) >>> bits === 0 && slot !== TOMB) return (slot ^ tag) - 1
    }
  }

  #probe(slots: Int32Array, home: number, hash: number, low: number, high: number): number {
    const { words } = this.#arena
    const bits = this.#bits
    const tag = hash << bits
    const mask = slots.length - 1
    for (let i = home; ; i = (i + 1) & mask) {
      const slot = slots[i] as number
      if (slot === 0) return -1
      if ((slot ^ tag) >>> bits !== 0 || slot === TOMB) continue
      const position = (slot ^ tag) - 1
      if (words[2 * position] === low && words[2 * position + 1] === high) return position
    }
  }

  /** Anchors the block at a position; a no-op when it is. */
  add(position: number): void {
    if (!this.#arena.mark(position, ANCHORED)) return
    if (this.#old.length > 0) this.#move()
    else if (8 * (this.#used + 1) > 5 * this.#slots.length) this.#replace()
    this.#put(position)
    this.#count += 1
  }

  /** Forgets the anchor of the block at a position; a no-op when there is none. */
  drop(position: number): void {
    if (this.#arena.unmark(position, ANCHORED)) this.#delete(position)
  }

  /** Forgets the anchors of the positions [from, to). */
  dropRange(from: number, to: number): void {
    const { marks } = this.#arena
    while (from < to) {
      const stop = Math.min(to, (from | 31) + 1)
      const at = MARK_STRIDE * (from >> 5) + ANCHORED
      const gone = (marks[at] as number) & bitsBetween(from, stop)
      if (gone !== 0) {
        marks[at] = (marks[at] as number) & ~gone
        const first = from & ~31
        for (let left = gone; left !== 0; left &= left - 1) {
          this.#delete(first + 31 - Math.clz32(left & -left))
        }
      }
      from = stop
    }
  }

  #hashOf(position: number): number {
    const { words } = this.#arena
    return mixHash(words[2 * position] as number, words[2 * position + 1] as number)
  }

  #put(position: number): void {
    const slots = this.#slots
    const hash = this.#hashOf(position)
    const mask = slots.length - 1
    let i = hash >>> this.#shift
    while (slots[i] !== 0 && slots[i] !== TOMB) i = (i + 1) & mask
    if (slots[i] === 0) this.#used += 1
    slots[i] = (hash << this.#bits) ^ (position + 1)
  }

  #delete(position: number): void {
    const hash = this.#hashOf(position)
    const wanted = (hash << this.#bits) ^ (position + 1)
    const slots = this.#slots
    const mask = slots.length - 1
    this.#count -= 1
    if (this.#old.length > 0) this.#move()
    let i = hash >>> this.#shift
    while (slots[i] !== wanted && slots[i] !== 0) i = (i + 1) & mask
    if (slots[i] === 0) {
      this.#deleteOld(hash, wanted)
      return
    }
    slots[i] = TOMB
    // Tombs at the end of a chain of probes are of no use.
    for (let k = i; slots[(k + 1) & mask] === 0 && slots[k] === TOMB; k = (k - 1) & mask) {
      slots[k] = 0
      this.#used -= 1
    }
    // Memory is given back when a tenth is enough.
    if (slots.length > SLOTS_MIN && 10 * this.#count < slots.length) this.#replace()
  }

  #deleteOld(hash: number, wanted: number): void {
    const slots = this.#old
    const mask = slots.length - 1
    let i = hash >>> this.#oldShift
    while (slots[i] !== wanted) i = (i + 1) & mask
    slots[i] = TOMB
  }

  #replace(): void {
    if (this.#old.length > 0) return
    let length = SLOTS_MIN
    while (length < 3 * (this.#count + 1)) length *= 2
    this.#old = this.#slots
    this.#oldShift = this.#shift
    this.#moved = 0
    this.#slots = new Int32Array(length)
    this.#shift = Math.clz32(length) + 1
    this.#used = 0
  }

  #move(): void {
    const old = this.#old
    const bits = this.#bits
    // Many more when the table has become much smaller: a third of the new one and a quarter of it are less than it can take.
    const step = Math.max(STEP, Math.ceil((MOVING_SHARE * old.length) / this.#slots.length))
    const stop = Math.min(old.length, this.#moved + step)
    for (let i = this.#moved; i < stop; i++) {
      const slot = old[i] as number
      if (slot === 0 || slot === TOMB) continue
      old[i] = TOMB
      this.#put(((slot << (32 - bits)) >>> (32 - bits)) - 1)
    }
    this.#moved = stop
    if (stop === old.length) this.#old = NONE
  }
}
