/**
 * A hash table with 64-bit keys and rows of 32-bit words: open addressing, at most two thirds full, backward-shift
 * deletion.
 *
 *   row   | hash low | hash high | … caller's words … | last word: not 0 while the row is in use |
 *
 * The content of a row beyond the hash belongs to the caller. `rows` is replaced when the table grows: read it again
 * after `makeSpace`.
 */
import { mixHash } from '../runs/anchor-table.ts'

export class HashRows {
  rows: Int32Array
  readonly #width: number
  #count = 0

  constructor(width: number, rowsFirst: number) {
    this.#width = width
    this.rows = new Int32Array(width * rowsFirst)
  }

  /** Number of rows in use. */
  get count(): number {
    return this.#count
  }

  get bytes(): number {
    return this.rows.byteLength
  }

  /** Call before a row is added; other rows may move. */
  makeSpace(): void {
    if (3 * (this.#count + 1) * this.#width > 2 * this.rows.length) this.#grow()
  }

  /** Call after a free row has been filled. */
  added(): void {
    this.#count += 1
  }

  /** Index of the row with this hash (signed halves), or of the free row where it belongs. */
  rowOf(low: number, high: number): number {
    const rows = this.rows
    const width = this.#width
    const last = width - 1
    let row = width * this.#home(low, high)
    while (rows[row + last] !== 0 && (rows[row] !== low || rows[row + 1] !== high)) {
      row += width
      if (row === rows.length) row = 0
    }
    return row
  }

  delete(row: number): void {
    const rows = this.rows
    const width = this.#width
    const last = width - 1
    const mask = rows.length / width - 1
    let hole = row
    this.#count -= 1
    for (let next = hole; ;) {
      next = next + width === rows.length ? 0 : next + width
      if (rows[next + last] === 0) break
      const home = this.#home(rows[next] as number, rows[next + 1] as number)
      if (((next / width - home) & mask) < (((next - hole) / width) & mask)) continue
      rows.copyWithin(hole, next, next + width)
      hole = next
    }
    rows[hole + last] = 0
  }

  #home(low: number, high: number): number {
    return (mixHash(low, high) >>> 7) & (this.rows.length / this.#width - 1)
  }

  #grow(): void {
    const old = this.rows
    const width = this.#width
    this.rows = new Int32Array(2 * old.length)
    for (let row = 0; row < old.length; row += width) {
      if (old[row + width - 1] === 0) continue
      const target = this.rowOf(old[row] as number, old[row + 1] as number)
      this.rows.set(old.subarray(row, row + width), target)
    }
  }
}
