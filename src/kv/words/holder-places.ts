/**
 * Index of each holder in a list of holdings that is too long for a linear search.
 *
 * An open-addressing table of (holder + 1, index). A full table is replaced incrementally, a few rows per change.
 */
import { tableLength } from './mix-hash.ts'

const ROWS_MIN = 256
const TOMB = -1
/** Minimum number of old rows moved per change; and the share of the new rows that may change until all are moved. */
const STEP = 8
const MOVING_SHARE = 4
const NONE = new Int32Array(0)

export class HolderPlaces {
  #rows = new Int32Array(2 * ROWS_MIN)
  /** Rows that are not empty, including tombstones. */
  #used = 0
  #count = 0
  #old = NONE
  #moved = 0

  get bytes(): number {
    return this.#rows.byteLength + this.#old.byteLength
  }

  /** The index of a holder, or -1. */
  get(holder: number): number {
    const row = find(this.#rows, holder)
    if (row >= 0) return this.#rows[row + 1] as number
    if (this.#old.length === 0) return -1
    const old = find(this.#old, holder)
    return old < 0 ? -1 : (this.#old[old + 1] as number)
  }

  /** Sets the index of a holder. */
  set(holder: number, place: number): void {
    this.#move()
    const row = find(this.#rows, holder)
    if (row >= 0) {
      this.#rows[row + 1] = place
      return
    }
    const old = this.#old.length === 0 ? -1 : find(this.#old, holder)
    if (old >= 0) this.#old[old + 1] = place
    else {
      if (16 * (this.#used + 1) > 5 * this.#rows.length) this.#replace()
      this.#insert(holder, place)
      this.#count += 1
    }
  }

  /** Removes a holder; no effect if it is not present. */
  delete(holder: number): void {
    this.#move()
    let rows = this.#rows
    let row = find(rows, holder)
    if (row < 0) {
      if (this.#old.length === 0) return
      rows = this.#old
      row = find(rows, holder)
      if (row < 0) return
    }
    rows[row] = TOMB
    this.#count -= 1
  }

  #insert(holder: number, place: number): void {
    const rows = this.#rows
    let row = home(rows, holder)
    while ((rows[row] as number) > 0) row = row + 2 === rows.length ? 0 : row + 2
    if (rows[row] === 0) this.#used += 1
    rows[row] = holder + 1
    rows[row + 1] = place
  }

  #replace(): void {
    if (this.#old.length > 0) return
    const count = tableLength(ROWS_MIN, 3 * this.#count)
    this.#old = this.#rows
    this.#moved = 0
    this.#rows = new Int32Array(2 * count)
    this.#used = 0
  }

  #move(): void {
    const old = this.#old
    if (old.length === 0) return
    // More rows per change if the new table is much smaller, so that the move ends before the new table is full.
    const step = Math.max(STEP, Math.ceil((MOVING_SHARE * old.length) / this.#rows.length))
    const stop = Math.min(old.length, this.#moved + 2 * step)
    for (let row = this.#moved; row < stop; row += 2) {
      const key = old[row] as number
      if (key <= 0) continue
      old[row] = TOMB
      this.#insert(key - 1, old[row + 1] as number)
    }
    this.#moved = stop
    if (stop === old.length) this.#old = NONE
  }
}

const home = (rows: Int32Array, holder: number): number =>
  2 * ((Math.imul(holder, 0x9e3779b1) >>> 9) & ((rows.length >> 1) - 1))

function find(rows: Int32Array, holder: number): number {
  for (let row = home(rows, holder); rows[row] !== 0;) {
    if (rows[row] === holder + 1) return row
    row = row + 2 === rows.length ? 0 : row + 2
  }
  return -1
}
