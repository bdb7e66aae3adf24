/**
 * The hashes of an event, or of deferred removals, that have not been found yet: a table that fits into the CPU cache.
 *
 * Hashes are stored in the table itself, so that looking one up reads one place in memory. When many blocks are looked up
 * (`takeEach`), a filter of bits comes first: it has no branch that depends on a block, so the processor does not wait for
 * one look-up after the other. The same object is reused.
 */
import { SmallFilter } from './bloom-filters.ts'
import { mixHash, tableLength, tableShift } from './mix-hash.ts'

const ROWS_MIN = 256
/** Rows per hash, at least; and if so many hashes are few. */
const SPACE = 2
const SPACE_IF_FEW = 4
const FEW = 1 << 12
/** The hashes with these halves are no hashes but an empty row, and one whose hash has been taken. */
const SPECIAL_LOW = 0
const EMPTY_HIGH = 0
const TAKEN_HIGH = 1

const isSpecial = (low: number, high: number): boolean =>
  low === SPECIAL_LOW && (high === EMPTY_HIGH || high === TAKEN_HIGH)

export class WantedHashes {
  /** By mixed hash: both halves (signed: V8 does not box them). */
  #rows = new Int32Array(2 * ROWS_MIN)
  /** Only as many rows are used as the event needs. */
  #mask = 0
  #shift = 0
  #filter = new SmallFilter(0)
  /** Whether the hashes that a row cannot contain are wanted, by their upper half. */
  readonly #special = [false, false]
  /** Scratch: the blocks that pass the filter. */
  #passed = new Int32Array(0)
  /** Number of hashes that have not been taken. */
  left = 0
  /** Number of hashes that `addEach` may still add. */
  space = 0

  /** Fills the table with the hashes `from` .. `to`. A hash that is named twice is wanted once. */
  reset(hashes: Int32Array | Uint32Array, from: number, to: number): void {
    this.#makeSpace(to - from)
    for (let k = 2 * from; k < 2 * to; k += 2) {
      this.#add((hashes[k] as number) | 0, (hashes[k + 1] as number) | 0)
    }
  }

  /** Empties the table, and makes space for so many hashes. They can be looked up with `takeEach`. */
  begin(count: number): void {
    this.#makeSpace(count)
    this.#filter = new SmallFilter(count)
    this.space = (this.#mask + 1) / SPACE
  }

  /** Adds the hashes `from` .. `to` of a list, for which there is space after `begin`. */
  addEach(hashes: Int32Array, from: number, to: number): void {
    this.space -= to - from
    for (let k = 2 * from; k < 2 * to; k += 2) {
      const low = hashes[k] as number
      const high = hashes[k + 1] as number
      this.#add(low, high)
      this.#filter.add(low, high)
    }
  }

  #makeSpace(count: number): void {
    const space = count < FEW ? SPACE_IF_FEW : SPACE
    const length = tableLength(ROWS_MIN, space * count)
    if (2 * length <= this.#rows.length) this.#rows.fill(0, 0, 2 * length)
    else this.#rows = new Int32Array(2 * length)
    this.#mask = length - 1
    this.#shift = tableShift(length)
    this.#special[0] = false
    this.#special[1] = false
    this.left = 0
  }

  #add(low: number, high: number): void {
    if (isSpecial(low, high)) {
      if (this.#special[high] !== true) this.left += 1
      this.#special[high] = true
      return
    }
    const rows = this.#rows
    let row = mixHash(low, high) >>> this.#shift
    while (((rows[2 * row] as number) | (rows[2 * row + 1] as number)) !== 0) {
      if (rows[2 * row] === low && rows[2 * row + 1] === high) return
      row = (row + 1) & this.#mask
    }
    rows[2 * row] = low
    rows[2 * row + 1] = high
    this.left += 1
  }

  /** Whether a hash (signed halves) is wanted. */
  has(low: number, high: number): boolean {
    return isSpecial(low, high) ? this.#special[high] === true : this.#find(low, high) >= 0
  }

  /** Takes a hash (signed halves); false if it is not wanted. */
  take(low: number, high: number): boolean {
    if (isSpecial(low, high)) {
      if (this.#special[high] !== true) return false
      this.#special[high] = false
    } else {
      const row = this.#find(low, high)
      if (row < 0) return false
      this.#rows[2 * row] = SPECIAL_LOW
      this.#rows[2 * row + 1] = TAKEN_HIGH
    }
    this.left -= 1
    return true
  }

  /** The hashes that have not been taken. */
  rest(): Uint32Array {
    const rest = new Uint32Array(2 * this.left)
    let count = 0
    const add = (low: number, high: number): void => {
      rest[count] = low
      rest[count + 1] = high
      count += 2
    }
    for (const high of [EMPTY_HIGH, TAKEN_HIGH])
      if (this.#special[high] === true) add(SPECIAL_LOW, high)
    for (let row = 0; count < rest.length; row++) {
      const low = this.#rows[2 * row] as number
      const high = this.#rows[2 * row + 1] as number
      if (!isSpecial(low, high)) add(low, high)
    }
    return rest
  }

  /** The row of a hash, or -1. */
  #find(low: number, high: number): number {
    const rows = this.#rows
    const mask = this.#mask
    for (let row = mixHash(low, high) >>> this.#shift; ; row = (row + 1) & mask) {
      const is = rows[2 * row] as number
      if (is === low && rows[2 * row + 1] === high) return row
      if (is === SPECIAL_LOW && rows[2 * row + 1] === EMPTY_HIGH) return -1
    }
  }

  /**
   * Takes the hashes of blocks at `positions` in `words` (two signed halves each). Sets `isTaken` of each block to 1 or 0.
   * Only after `begin`.
   */
  takeEach(words: Int32Array, positions: Int32Array, count: number, isTaken: Uint8Array): void {
    if (this.#passed.length < count) this.#passed = new Int32Array(positions.length)
    const passed = this.#passed
    const filter = this.#filter
    let passing = 0
    for (let i = 0; i < count; i++) {
      const word = 2 * (positions[i] as number)
      isTaken[i] = 0
      passed[passing] = i
      passing += filter.bitOf(words[word] as number, words[word + 1] as number)
    }
    for (let k = 0; k < passing; k++) {
      const i = passed[k] as number
      const word = 2 * (positions[i] as number)
      if (this.take(words[word] as number, words[word + 1] as number)) isTaken[i] = 1
    }
  }
}
