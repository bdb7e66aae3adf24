/**
 * Hash → position, for the blocks that are anchored. Only some blocks are: first blocks of runs, ends of holdings,
 * and points where queries left a run; see `RunSearch` for the others.
 *
 * An open-addressing table with slots of 4 bytes: position + 1 in the lower bits, and as many hash bits as fit above,
 * so that most absent hashes are rejected without reading the arena. A table that is too full or too empty is
 * replaced incrementally, a few slots per change, so that no call has to move millions. Invariant: each block that the
 * arena marks as anchored has a slot. Other slots may be stale: anchors of a whole stretch of blocks are removed by
 * their marks alone, because reading a slot per block would take longer than the rest of their removal.
 */
import { ANCHORED, MARK_STRIDE } from '../arena/block-arena.ts'
import type { BlockArena } from '../arena/block-arena.ts'
import { bitCount, bitsBetween } from '../words/bit-count.ts'
import { mixHash, tableLength, tableShift } from '../words/mix-hash.ts'

const SLOTS_MIN = 256
/** A deleted slot in the middle of a probe sequence. */
const TOMB = -1
/** Minimum number of old slots moved per change; and the share of the new slots that may change until all are moved. */
const STEP = 4
const MOVING_SHARE = 4
/** Memory of an anchor in a table that has just grown. */
const ANCHOR_BYTES = 11
const NONE = new Int32Array(0)

export class AnchorTable {
  readonly #arena: BlockArena
  /** Number of slot bits for position + 1; no position sets all of them. */
  readonly #bits: number
  #slots = new Int32Array(SLOTS_MIN)
  #shift = tableShift(SLOTS_MIN)
  /** Slots that are not empty, including stale ones and tombstones. */
  #used = 0
  #count = 0
  /** The old table while it is being moved, and how far that is. */
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

  /** Memory that the anchors may need when the table grows, without the old table, which is soon moved. */
  get bytesNeeded(): number {
    return Math.max(this.bytes, ANCHOR_BYTES * this.#count)
  }

  /** Position of an anchored block (signed halves of its hash), or -1. */
  lookup(low: number, high: number): number {
    const hash = mixHash(low, high)
    const position = this.#probe(this.#slots, hash >>> this.#shift, hash, low, high)
    if (position >= 0 || this.#old.length === 0) return position
    return this.#probe(this.#old, hash >>> this.#oldShift, hash, low, high)
  }

  /** Prefetches the first slot of the probe sequence of a hash (signed halves). */
  touch(low: number, high: number): number {
    return this.#slots[mixHash(low, high) >>> this.#shift] as number
  }

  /** The first position that may have this hash (signed halves), or -1; the block itself is not read. */
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
      if (words[2 * position] !== low || words[2 * position + 1] !== high) continue
      if (this.#arena.isMarked(position, ANCHORED)) return position
    }
  }

  /** Anchors the block at a position; no effect if it is anchored. */
  add(position: number): void {
    if (!this.#arena.mark(position, ANCHORED)) return
    if (this.#old.length > 0) this.#move()
    else if (4 * (this.#used + 1) > 3 * this.#slots.length) this.#replace()
    this.#put(position)
    this.#count += 1
  }

  /** Removes the anchor of the block at a position; no effect if it has none. */
  drop(position: number): void {
    if (!this.#arena.unmark(position, ANCHORED)) return
    this.#delete(position)
    this.#lost(1)
  }

  /** Removes the anchors of the positions [from, to). */
  dropRange(from: number, to: number): void {
    const { marks } = this.#arena
    let gone = 0
    while (from < to) {
      const stop = Math.min(to, (from | 31) + 1)
      const at = MARK_STRIDE * (from >> 5) + ANCHORED
      const marked = (marks[at] as number) & bitsBetween(from, stop)
      marks[at] = (marks[at] as number) & ~marked
      gone += bitCount(marked)
      from = stop
    }
    if (gone > 0) this.#lost(gone)
  }

  #lost(anchors: number): void {
    this.#count -= anchors
    if (this.#count === 0) this.#clear()
    else if (this.#old.length > 0) this.#move()
    // The table shrinks when less than a tenth is used.
    else if (this.#slots.length > SLOTS_MIN && 10 * this.#count < this.#slots.length)
      this.#replace()
  }

  #hashOf(position: number): number {
    const { words } = this.#arena
    return mixHash(words[2 * position] as number, words[2 * position + 1] as number)
  }

  #put(position: number): void {
    const slots = this.#slots
    const hash = this.#hashOf(position)
    const slot = (hash << this.#bits) ^ (position + 1)
    const mask = slots.length - 1
    let i = hash >>> this.#shift
    while (slots[i] !== 0 && slots[i] !== TOMB && slots[i] !== slot) i = (i + 1) & mask
    // The block may have a stale slot.
    if (slots[i] === 0) this.#used += 1
    slots[i] = slot
  }

  /** Removes the slot of a position, unless it is in the old table: there it is stale now. */
  #delete(position: number): void {
    const slots = this.#slots
    const hash = this.#hashOf(position)
    const wanted = (hash << this.#bits) ^ (position + 1)
    const mask = slots.length - 1
    let i = hash >>> this.#shift
    while (slots[i] !== wanted && slots[i] !== 0) i = (i + 1) & mask
    if (slots[i] === 0) return
    slots[i] = TOMB
    // Tombstones at the end of a probe sequence are useless.
    for (; slots[(i + 1) & mask] === 0 && slots[i] === TOMB; i = (i - 1) & mask) {
      slots[i] = 0
      this.#used -= 1
    }
  }

  #clear(): void {
    if (this.#slots.length > SLOTS_MIN) this.#slots = new Int32Array(SLOTS_MIN)
    else this.#slots.fill(0)
    this.#shift = tableShift(SLOTS_MIN)
    this.#used = 0
    this.#old = NONE
  }

  #replace(): void {
    if (this.#old.length > 0) return
    const length = tableLength(SLOTS_MIN, 2 * (this.#count + 1))
    this.#old = this.#slots
    this.#oldShift = this.#shift
    this.#moved = 0
    this.#slots = new Int32Array(length)
    this.#shift = tableShift(length)
    this.#used = 0
  }

  #move(): void {
    const old = this.#old
    const bits = this.#bits
    // More slots per change if the new table is much smaller, so that the move ends before the new table is full.
    const step = Math.max(STEP, Math.ceil((MOVING_SHARE * old.length) / this.#slots.length))
    const stop = Math.min(old.length, this.#moved + step)
    for (let i = this.#moved; i < stop; i++) {
      const slot = old[i] as number
      if (slot === 0 || slot === TOMB) continue
      const position = ((slot << (32 - bits)) >>> (32 - bits)) - 1
      if (this.#arena.isMarked(position, ANCHORED)) this.#put(position)
    }
    this.#moved = stop
    if (stop === old.length) this.#old = NONE
  }
}
