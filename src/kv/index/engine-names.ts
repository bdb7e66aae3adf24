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
import type { SlabMemory } from '../words/slab-memory.ts'
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
/** Percent of a part's cells that are not empty at most. */
const FULL = 75
/**
 * With a name in fewer percent of all cells a part shrinks, to so many cells per name. If it were more often, new memory
 * would cost more than the removals.
 */
const SPARSE = 22
const SHRUNK = 1.6
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
  readonly #memory: SlabMemory
  readonly #parts: Int32Array[] = Array.from({ length: PARTS }, () => NO_CELLS)
  /** By part: number of empty cells that may still be used. */
  readonly #room = new Int32Array(PARTS)
  /** Number of cells of all parts. */
  #cells = 0
  /** With fewer names a part should shrink, or the table is empty. The last part that has. */
  #least = 1
  #shrunk = 0
  count = 0
  bytes = TABLE_BYTES
  /** Baton's hash of the name that `find` found. */
  low = 0
  high = 0

  /** The parts are in `memory`, with those of other holders. */
  constructor(memory: SlabMemory) {
    this.#memory = memory
  }

  /** Call when the table is no longer used. */
  drop(): void {
    for (const cells of this.#parts) if (cells !== NO_CELLS) this.#memory.give(cells)
    this.#parts.fill(NO_CELLS)
  }

  /** Moves all parts in a buffer to other memory. */
  moveFrom(buffer: ArrayBufferLike): void {
    for (const [part, cells] of this.#parts.entries()) {
      if (cells.buffer === buffer) this.#parts[part] = this.#memory.move(cells)
    }
  }

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
    const { words } = reads
    words[3 * k] = homeOf(first, keyOf(rest), cells.length)
    words[3 * k + 1] = first
    words[3 * k + 2] = rest
  }

  /** A tier has stored a block with the `k`-th name of the reads, and this hash of Baton. The last translation counts. */
  add(reads: NameReads, k: number, low: number, high: number, tier: number): void {
    const first = reads.words[3 * k + 1] as number
    const rest = reads.words[3 * k + 2] as number
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
      this.count += 1
      cells[at] = first
      cells[at + 1] = key | tier
    }
    cells[at + 2] = low
    cells[at + 3] = high
  }

  /**
   * A tier has removed block `i` of `hashes`, the `k`-th name of the reads: replaces it by Baton's hash. An unknown one
   * stays as it is. Returns whether `tidy` should be called after the last one.
   */
  take(reads: NameReads, k: number, hashes: Uint32Array, i: number, tier: number): boolean {
    const cells = reads.cells[k] as Int32Array
    const { words } = reads
    const key = keyOf(words[3 * k + 2] as number)
    const at = seek(cells, words[3 * k] as number, words[3 * k + 1] as number, key)
    if (at < 0) return false
    hashes[2 * i] = cells[at + 2] as number
    hashes[2 * i + 1] = cells[at + 3] as number
    const word = (cells[at + 1] as number) & ~tier
    if (isName(word)) {
      cells[at + 1] = word
      return false
    }
    cells[at + 1] = REMOVED
    const count = this.count - 1
    this.count = count
    return count < this.#least
  }

  /** Makes a part smaller if all are sparse. Not before the last name of the reads, because they refer to it. */
  tidy(): void {
    if (this.count >= this.#least) return
    // Large ones first.
    this.#shrunk = (this.#shrunk - 1) & (PARTS - 1)
    const cells = this.#parts[this.#shrunk] as Int32Array
    const before = cells.length >> CELL_BITS
    const count = Math.floor(Math.max(CELLS_MIN, SHRUNK * namesIn(cells)))
    if (count < before) this.#replace(this.#shrunk, count)
    else this.#least = 1
  }

  #makeRoom(part: number): Int32Array {
    const { length } = this.#parts[part] as Int32Array
    if (length === NO_CELLS.length) {
      this.bytes += PART_BYTES
      return this.#replace(part, Math.floor(CELLS_MIN * GROWTH ** (part / PARTS)))
    }
    // Removed names make space, too, usually in all parts alike.
    let count = length >> CELL_BITS
    if (100 * GROWTH * this.count >= FULL * this.#cells) count = Math.floor(GROWTH * count)
    let cells = this.#replace(part, count)
    while ((this.#room[part] as number) <= 0) {
      count = Math.floor(GROWTH * count)
      cells = this.#replace(part, count)
    }
    return cells
  }

  #replace(part: number, count: number): Int32Array {
    const old = this.#parts[part] as Int32Array
    const cells = this.#memory.take(CELL * count)
    let live = 0
    for (let at = 0; at < old.length; at += CELL) {
      const word = old[at + 1] as number
      if (!isName(word)) continue
      live += 1
      const first = old[at] as number
      const key = word & ~(PARTS - 1)
      const to = seekOrFree(cells, homeOf(first, key, cells.length), first, key)
      cells[to] = first
      cells[to + 1] = word
      cells[to + 2] = old[at + 2] as number
      cells[to + 3] = old[at + 3] as number
    }
    this.#parts[part] = cells
    this.#room[part] = Math.floor((FULL * count) / 100) - live
    this.#cells += count
    this.bytes += cells.byteLength
    if (old !== NO_CELLS) {
      this.#cells -= old.length >> CELL_BITS
      this.bytes -= old.byteLength
      this.#memory.give(old)
    }
    this.#least = (this.#cells * SPARSE) / 100
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

/** Number of names in a part. */
function namesIn(cells: Int32Array): number {
  let count = 0
  for (let at = 0; at < cells.length; at += CELL) if (isName(cells[at + 1] as number)) count += 1
  return count
}
