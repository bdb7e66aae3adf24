/**
 * What an engine with hashes of its own calls the blocks of one holder, and what Baton calls them.
 *
 * Owns: rows of 20 bytes (name, own hash, tiers that know the name). There is one table for each holder that needs one,
 * so forgetting a holder costs nothing.
 */
import { HashRows } from './hash-rows.ts'

const ROW = 5
const ROWS_MIN = 16

export class EngineNames {
  readonly #table = new HashRows(ROW, ROWS_MIN)
  /** Own hash of the name that `find` found. */
  low = 0
  high = 0

  get count(): number {
    return this.#table.count
  }

  get bytes(): number {
    return this.#table.bytes
  }

  /** Whether the name is known; `low` and `high` then hold the block's own hash. */
  find(nameLow: number, nameHigh: number): boolean {
    const row = this.#table.rowOf(nameLow | 0, nameHigh | 0)
    const { rows } = this.#table
    if (rows[row + 4] === 0) return false
    this.low = (rows[row + 2] as number) >>> 0
    this.high = (rows[row + 3] as number) >>> 0
    return true
  }

  /** A tier (a bit) knows the block by this name. A name that meant another block means this one from now on. */
  add(nameLow: number, nameHigh: number, low: number, high: number, tier: number): void {
    const table = this.#table
    table.makeSpace()
    const row = table.rowOf(nameLow | 0, nameHigh | 0)
    const { rows } = table
    const isSame = rows[row + 2] === (low | 0) && rows[row + 3] === (high | 0)
    if (rows[row + 4] === 0) table.taken()
    rows[row] = nameLow
    rows[row + 1] = nameHigh
    rows[row + 2] = low
    rows[row + 3] = high
    rows[row + 4] = (isSame ? (rows[row + 4] as number) : 0) | tier
  }

  /** The tier has lost the block; the name goes with the last one. */
  drop(nameLow: number, nameHigh: number, tier: number): void {
    const table = this.#table
    const row = table.rowOf(nameLow | 0, nameHigh | 0)
    const { rows } = table
    const known = rows[row + 4] as number
    if (known === 0) return
    rows[row + 4] = known & ~tier
    if (rows[row + 4] === 0) table.delete(row)
  }
}
