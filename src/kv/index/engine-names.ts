/**
 * The block hashes of an engine ("names") that differ from Baton's sequence hashes, for one holder: translates a name
 * to Baton's hash, and owns which tiers use it.
 *
 * A hash table with open addressing and linear probing. A name and its translation are one cell of 16 bytes, so that a
 * translation waits for one read of memory. The table has 64 parts, each an array of its own that is replaced as a
 * whole when it is full or sparse, so that no call moves many names; the parts differ in size, so that they do not all
 * grow at the same time.
 *
 *   name ─▶ first 32, rest 32 (reversible, so that no two names look the same)
 *   the upper 6 bits of rest ─▶ part ─▶ cells   | first 32 | lower 26 of rest, flags 6 | Baton's hash 64 |
 *
 * A removed name leaves a mark, because an empty cell would end the search for the names after it. Marks are reused,
 * and gone when the part is replaced.
 */
import { NO_CELLS } from './name-reads.ts'
import type { NameReads } from './name-reads.ts'

const PART_BITS = 6
const PARTS = 1 << PART_BITS
const CELL_BITS = 2
const CELL = 1 << CELL_BITS
/** Flags of a cell: the tiers that use the name, or that it was removed. None: no name has been here. */
const TIERS = 7
const REMOVED = 8
/** Cells of the smallest parts; the last one begins with almost `GROWTH` times as many. */
const CELLS_MIN = 32
const GROWTH = 1.5
/** Percent of the cells that are not empty at most, and of those with a name at least. */
const FULL = 75
const SPARSE = 25
/** What V8 and the allocator need for a part besides its cells, and for a table without any. */
const PART_BYTES = 192
const TABLE_BYTES = 1600

const mix = (word: number): number => {
  const mixed = Math.imul(word, 0x9e3779b1)
  return mixed ^ (mixed >>> 15)
}

const firstOf = (low: number, high: number): number => low ^ mix(high)
const restOf = (first: number, high: number): number => high ^ mix(first)
const partOf = (rest: number): number => rest >>> (32 - PART_BITS)
const keyOf = (rest: number): number => rest << PART_BITS
const isEmpty = (word: number): boolean => word === 0
const isName = (word: number): boolean => (word & TIERS) !== 0

/** Word index of the first cell to look at, in a part with `words` words; ascends with a hash of the name. */
const homeOf = (first: number, key: number, words: number): number => {
  const hash = Math.imul(first ^ key, 0x85ebca6b) >>> 0
  return ((hash * (words >> CELL_BITS)) / 2 ** 32) << CELL_BITS
}

export class EngineNames {
  readonly #parts: Int32Array[] = Array.from({ length: PARTS }, () => NO_CELLS)
  /** By part: number of names, and of empty cells that may still be used. */
  readonly #live = new Int32Array(PARTS)
  readonly #room = new Int32Array(PARTS)
  /** A part that has become sparse, or -1. */
  #sparse = -1
  count = 0
  bytes = TABLE_BYTES
  /** Baton's hash of the name that `find` found. */
  low = 0
  high = 0

  /** Returns whether a name is known; `low` and `high` then contain Baton's hash. */
  find(nameLow: number, nameHigh: number): boolean {
    const first = firstOf(nameLow, nameHigh)
    const rest = restOf(first, nameHigh)
    const key = keyOf(rest)
    const cells = this.#parts[partOf(rest)] as Int32Array
    const at = seek(cells, homeOf(first, key, cells.length), first, key)
    if (at < 0) return false
    this.low = (cells[at + 2] as number) >>> 0
    this.high = (cells[at + 3] as number) >>> 0
    return true
  }

  /** Computes where name `i` of `hashes` should be: the `k`-th of some reads. */
  locate(hashes: Uint32Array, i: number, reads: NameReads, k: number): void {
    const nameHigh = (hashes[2 * i + 1] as number) | 0
    const first = firstOf((hashes[2 * i] as number) | 0, nameHigh)
    const rest = restOf(first, nameHigh)
    const cells = this.#parts[partOf(rest)] as Int32Array
    reads.cells[k] = cells
    reads.places[k] = homeOf(first, keyOf(rest), cells.length)
    reads.firsts[k] = first
    reads.rests[k] = rest
  }

  /** A tier has stored a block with the `k`-th name of the reads, and this hash of Baton. The last translation counts. */
  add(reads: NameReads, k: number, low: number, high: number, tier: number): void {
    const first = reads.firsts[k] as number
    const rest = reads.rests[k] as number
    const key = keyOf(rest)
    const part = partOf(rest)
    let cells = this.#parts[part] as Int32Array
    if (this.#room[part] === 0) cells = this.#makeRoom(part)
    const at = seekOrFree(cells, homeOf(first, key, cells.length), first, key)
    const word = cells[at + 1] as number
    if (isName(word)) {
      const isSame = cells[at + 2] === low && cells[at + 3] === high
      cells[at + 1] = isSame ? word | tier : key | tier
    } else {
      if (isEmpty(word)) this.#room[part] = (this.#room[part] as number) - 1
      this.#live[part] = (this.#live[part] as number) + 1
      this.count += 1
      cells[at] = first
      cells[at + 1] = key | tier
    }
    cells[at + 2] = low
    cells[at + 3] = high
  }

  /**
   * A tier has removed block `i` of `hashes`, the `k`-th name of the reads: replaces it by Baton's hash. An unknown one
   * stays as it is. Call `tidy` after the last one.
   */
  take(reads: NameReads, k: number, hashes: Uint32Array, i: number, tier: number): void {
    const cells = reads.cells[k] as Int32Array
    const rest = reads.rests[k] as number
    const at = seek(cells, reads.places[k] as number, reads.firsts[k] as number, keyOf(rest))
    if (at < 0) return
    hashes[2 * i] = cells[at + 2] as number
    hashes[2 * i + 1] = cells[at + 3] as number
    const word = (cells[at + 1] as number) & ~tier
    if (isName(word)) {
      cells[at + 1] = word
      return
    }
    cells[at + 1] = REMOVED
    this.count -= 1
    const part = partOf(rest)
    const live = (this.#live[part] as number) - 1
    this.#live[part] = live
    if (100 * CELL * live < SPARSE * cells.length) this.#sparse = part
  }

  /** Makes a part smaller that has become sparse. Not before the last name of the reads, because they refer to it. */
  tidy(): void {
    const part = this.#sparse
    if (part < 0) return
    this.#sparse = -1
    const count = (this.#parts[part] as Int32Array).length >> CELL_BITS
    if (count >= 2 * CELLS_MIN) this.#replace(part, count >> 1)
  }

  #makeRoom(part: number): Int32Array {
    const { length } = this.#parts[part] as Int32Array
    if (length === NO_CELLS.length) {
      this.bytes += PART_BYTES
      return this.#replace(part, Math.floor(CELLS_MIN * GROWTH ** (part / PARTS)))
    }
    const count = length >> CELL_BITS
    // Removed names make space, too.
    const isEnough = 100 * GROWTH * (this.#live[part] as number) < FULL * count
    return this.#replace(part, isEnough ? count : Math.floor(GROWTH * count))
  }

  #replace(part: number, count: number): Int32Array {
    const old = this.#parts[part] as Int32Array
    const cells = new Int32Array(CELL * count)
    for (let at = 0; at < old.length; at += CELL) {
      const word = old[at + 1] as number
      if (!isName(word)) continue
      const first = old[at] as number
      const key = word & ~(PARTS - 1)
      const to = seekOrFree(cells, homeOf(first, key, cells.length), first, key)
      cells[to] = first
      cells[to + 1] = word
      cells[to + 2] = old[at + 2] as number
      cells[to + 3] = old[at + 3] as number
    }
    this.#parts[part] = cells
    this.#room[part] = Math.floor((FULL * count) / 100) - (this.#live[part] as number)
    this.bytes += cells.byteLength - (old === NO_CELLS ? 0 : old.byteLength)
    return cells
  }
}

/** Word index of the cell of a name, or -1. */
function seek(cells: Int32Array, home: number, first: number, key: number): number {
  for (let at = home; ;) {
    const word = cells[at + 1] as number
    if (isEmpty(word)) return -1
    if (cells[at] === first && (word ^ key) >>> PART_BITS === 0 && isName(word)) return at
    at += CELL
    if (at === cells.length) at = 0
  }
}

/** Like `seek`; if there is none, the first cell that is free for it. */
function seekOrFree(cells: Int32Array, home: number, first: number, key: number): number {
  let free = -1
  for (let at = home; ;) {
    const word = cells[at + 1] as number
    if (!isName(word)) {
      if (free < 0) free = at
      if (isEmpty(word)) return free
    } else if (cells[at] === first && (word ^ key) >>> PART_BITS === 0) return at
    at += CELL
    if (at === cells.length) at = 0
  }
}
