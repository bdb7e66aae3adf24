/**
 * How many times each block is wanted: a counter for each 64-bit hash, in rows of 12 bytes (hash, count).
 */
import { HashRows } from './hash-rows.ts'

const ROW = 3
const ROWS_MIN = 64

export class BlockCounts {
  readonly #table = new HashRows(ROW, ROWS_MIN)

  /** Blocks with a count. */
  get size(): number {
    return this.#table.count
  }

  get bytes(): number {
    return this.#table.bytes
  }

  /** Adds one; returns the new count. */
  add(low: number, high: number): number {
    const table = this.#table
    table.makeRoom()
    const row = table.rowOf(low | 0, high | 0)
    const { rows } = table
    const count = (rows[row + 2] as number) + 1
    rows[row] = low
    rows[row + 1] = high
    rows[row + 2] = count
    if (count === 1) table.taken()
    return count
  }

  /** Takes one away; returns what is left. A block without a count stays at zero. */
  drop(low: number, high: number): number {
    const table = this.#table
    const row = table.rowOf(low | 0, high | 0)
    const count = table.rows[row + 2] as number
    if (count === 0) return 0
    table.rows[row + 2] = count - 1
    if (count === 1) table.delete(row)
    return count - 1
  }
}
