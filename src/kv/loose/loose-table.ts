/**
 * From a loose block's hash to its position: an extendible hash table of small segments.
 *
 * Owns: segments of at most 1,024 slots of 4 bytes, and the directory that names them by the first bits of a hash. A full
 * segment is split in two and two empty ones become one, so that no change moves more than a segment, the table is
 * never copied, and it shrinks as blocks go. A slot is the position + 1 and six bits of the hash.
 */
const SLOTS_MIN = 64
const SLOTS_MAX = 1024
/** Words behind the slots of a segment: slots that name a block, slots that are not empty, bits of the directory. */
const HEADER = 3
const POSITION_BITS = 26
const POSITION_MASK = (1 << POSITION_BITS) - 1
/** A slot whose block has gone, in the middle of a chain of probes. */
const TOMB = -1
const DEPTH_MAX = 16
const NONE = new Int32Array(0)

export const LOOSE_POSITIONS_MAX = POSITION_MASK - 2

/** What the table asks of whoever keeps the blocks; signed halves. */
interface Hashes {
  lowOf(position: number): number
  highOf(position: number): number
}

export function spreadHash(low: number, high: number): number {
  const mixed = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1)
  const again = Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35)
  return again ^ (again >>> 13)
}

const slotsOf = (segment: Int32Array): number => segment.length - HEADER

function makeSegment(slots: number, depth: number): Int32Array {
  const segment = new Int32Array(slots + HEADER)
  segment[slots + 2] = depth
  return segment
}

function put(segment: Int32Array, hash: number, position: number): void {
  const slots = slotsOf(segment)
  const mask = slots - 1
  let i = (hash >>> 6) & mask
  while (segment[i] !== 0 && segment[i] !== TOMB) i = (i + 1) & mask
  if (segment[i] === 0) segment[slots + 1] = (segment[slots + 1] as number) + 1
  segment[slots] = (segment[slots] as number) + 1
  segment[i] = (hash << POSITION_BITS) | (position + 1)
}

export class LooseTable {
  readonly #rows: Hashes
  #directory: Int32Array[]
  #depth = 1
  #bytes = 0
  /** Where `lookup` has found its answer: good until the next change. */
  #foundIn: Int32Array = NONE
  #foundAt = 0

  constructor(rows: Hashes) {
    this.#rows = rows
    this.#directory = [makeSegment(SLOTS_MIN, 1), makeSegment(SLOTS_MIN, 1)]
    for (const segment of this.#directory) this.#bytes += segment.byteLength
  }

  get bytes(): number {
    return this.#bytes + 8 * this.#directory.length
  }

  /** The position of a hash (signed halves), or -1. */
  lookup(low: number, high: number): number {
    const hash = spreadHash(low, high)
    const segment = this.#segmentOf(hash)
    const mask = slotsOf(segment) - 1
    for (let i = (hash >>> 6) & mask; ; i = (i + 1) & mask) {
      const slot = segment[i] as number
      if (slot === 0) return -1
      if ((slot ^ (hash << POSITION_BITS)) >>> POSITION_BITS !== 0 || slot === TOMB) continue
      const position = (slot & POSITION_MASK) - 1
      if (this.#rows.lowOf(position) === low && this.#rows.highOf(position) === high) {
        this.#foundIn = segment
        this.#foundAt = i
        return position
      }
    }
  }

  /** Reads what a search and a change of this hash (signed halves) will begin with, so that it lies in the cache. */
  touch(low: number, high: number): number {
    const hash = spreadHash(low, high)
    const segment = this.#segmentOf(hash)
    const slots = slotsOf(segment)
    return (segment[slots] as number) ^ (segment[(hash >>> 6) & (slots - 1)] as number)
  }

  /** The first position that may have this hash (signed halves), or -1; no row is read. */
  candidate(low: number, high: number): number {
    const hash = spreadHash(low, high)
    const segment = this.#segmentOf(hash)
    const mask = slotsOf(segment) - 1
    for (let i = (hash >>> 6) & mask; ; i = (i + 1) & mask) {
      const slot = segment[i] as number
      if (slot === 0) return -1
      if ((slot ^ (hash << POSITION_BITS)) >>> POSITION_BITS !== 0 || slot === TOMB) continue
      return (slot & POSITION_MASK) - 1
    }
  }

  /** The hash is not in the table yet. */
  add(low: number, high: number, position: number): void {
    const hash = spreadHash(low, high)
    let segment = this.#segmentOf(hash)
    while (20 * ((segment[slotsOf(segment) + 1] as number) + 1) > 17 * slotsOf(segment)) {
      this.#makeSpace(segment, hash)
      segment = this.#segmentOf(hash)
    }
    put(segment, hash, position)
  }

  /** The block at one position is at another one from now on. */
  move(low: number, high: number, from: number, to: number): void {
    const hash = spreadHash(low, high)
    const segment = this.#segmentOf(hash)
    segment[this.#slotOf(segment, hash, from)] = (hash << POSITION_BITS) | (to + 1)
  }

  delete(low: number, high: number, position: number): void {
    const hash = spreadHash(low, high)
    const segment = this.#segmentOf(hash)
    const slots = slotsOf(segment)
    const mask = slots - 1
    const live = (segment[slots] as number) - 1
    const isFound =
      this.#foundIn === segment &&
      ((segment[this.#foundAt] as number) & POSITION_MASK) === position + 1
    let i = isFound ? this.#foundAt : this.#slotOf(segment, hash, position)
    segment[slots] = live
    segment[i] = TOMB
    // Tombs at the end of a chain of probes are of no use.
    for (; segment[(i + 1) & mask] === 0 && segment[i] === TOMB; i = (i - 1) & mask) {
      segment[i] = 0
      segment[slots + 1] = (segment[slots + 1] as number) - 1
    }
    if (8 * live < slots && slots > SLOTS_MIN) this.#shrink(segment, hash)
  }

  #segmentOf(hash: number): Int32Array {
    return this.#directory[hash >>> (32 - this.#depth)] as Int32Array
  }

  #slotOf(segment: Int32Array, hash: number, position: number): number {
    const wanted = (hash << POSITION_BITS) | (position + 1)
    const mask = slotsOf(segment) - 1
    let i = (hash >>> 6) & mask
    while (segment[i] !== wanted) i = (i + 1) & mask
    return i
  }

  #makeSpace(segment: Int32Array, hash: number): void {
    const slots = slotsOf(segment)
    const depth = segment[slots + 2] as number
    const live = segment[slots] as number
    if (2 * live < slots) this.#replace(hash, depth, [segment], slots)
    else if (slots < SLOTS_MAX || depth === DEPTH_MAX) {
      this.#replace(hash, depth, [segment], 2 * slots)
    } else this.#split(segment, hash, depth)
  }

  #shrink(segment: Int32Array, hash: number): void {
    const slots = slotsOf(segment)
    const depth = segment[slots + 2] as number
    const live = segment[slots] as number
    const buddy = this.#segmentOf(hash ^ (1 << (32 - depth)))
    const isPair = depth > 1 && buddy[slotsOf(buddy) + 2] === depth
    const both = live + (buddy[slotsOf(buddy)] as number)
    if (isPair && 4 * both < SLOTS_MAX) {
      this.#replace(hash, depth - 1, [segment, buddy], sizeFor(both))
    } else this.#replace(hash, depth, [segment], sizeFor(live))
  }

  /** One new segment of so many slots takes the place of these, which share the first `depth` bits. */
  #replace(hash: number, depth: number, old: readonly Int32Array[], slots: number): void {
    const segment = makeSegment(slots, depth)
    for (const before of old) this.#moveAll(before, () => segment)
    this.#enter(segment, hash, depth)
  }

  #split(segment: Int32Array, hash: number, depth: number): void {
    if (depth === this.#depth) {
      this.#directory = this.#directory.flatMap((each) => [each, each])
      this.#depth += 1
    }
    const slots = slotsOf(segment)
    const [zero, one] = [makeSegment(slots, depth + 1), makeSegment(slots, depth + 1)]
    const bit = 1 << (31 - depth)
    this.#moveAll(segment, (each) => ((each & bit) === 0 ? zero : one))
    this.#enter(zero, hash & ~bit, depth + 1)
    this.#enter(one, hash | bit, depth + 1)
  }

  #moveAll(from: Int32Array, target: (hash: number) => Int32Array): void {
    this.#bytes -= from.byteLength
    for (let i = 0; i < slotsOf(from); i++) {
      const slot = from[i] as number
      if (slot === 0 || slot === TOMB) continue
      const position = (slot & POSITION_MASK) - 1
      const hash = spreadHash(this.#rows.lowOf(position), this.#rows.highOf(position))
      put(target(hash), hash, position)
    }
  }

  /** The directory names a segment for all hashes with the same first `depth` bits. */
  #enter(segment: Int32Array, hash: number, depth: number): void {
    this.#bytes += segment.byteLength
    const spare = this.#depth - depth
    const first = (hash >>> (32 - depth)) << spare
    this.#directory.fill(segment, first, first + (1 << spare))
  }
}

/** Slots for so many blocks, half of them empty. */
function sizeFor(count: number): number {
  let slots = SLOTS_MIN
  while (slots < 2 * count) slots *= 2
  return slots
}
