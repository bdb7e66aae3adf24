/**
 * Translates an engine's own block hashes of one holder into Baton's sequence hashes.
 *
 * Owns rows of 20 bytes: engine hash (2 words), Baton's hash (2 words), bit set of the tiers that use the engine
 * hash. Each holder that needs one has its own table, so removing a holder means dropping its table.
 */
import { HashRows } from './hash-rows.ts'

const ROW = 5
const ROWS_MIN = 16

export class EngineNames {
  readonly #table = new HashRows(ROW, ROWS_MIN)
  /** Baton's hash of the row that `find` found. */
  low = 0
  high = 0

  get count(): number {
    return this.#table.count
  }

  get bytes(): number {
    return this.#table.bytes
  }

  /** Returns whether the engine hash is known; `low` and `high` then contain Baton's hash. */
  find(nameLow: number, nameHigh: number): boolean {
    const row = this.#table.rowOf(nameLow | 0, nameHigh | 0)
    const { rows } = this.#table
    if (rows[row + 4] === 0) return false
    this.low = (rows[row + 2] as number) >>> 0
    this.high = (rows[row + 3] as number) >>> 0
    return true
  }

  /**
   * A tier (one bit) knows the block by this engine hash. If the hash meant another block before, the new meaning
   * wins.
   */
  add(nameLow: number, nameHigh: number, low: number, high: number, tier: number): void {
    const table = this.#table
    table.makeSpace()
    const row = table.rowOf(nameLow | 0, nameHigh | 0)
    const { rows } = table
    const isSame = rows[row + 2] === (low | 0) && rows[row + 3] === (high | 0)
    if (rows[row + 4] === 0) table.added()
    rows[row] = nameLow
    rows[row + 1] = nameHigh
    rows[row + 2] = low
    rows[row + 3] = high
    rows[row + 4] = (isSame ? (rows[row + 4] as number) : 0) | tier
  }

  /** The tier has removed the block; the row is removed with its last tier. */
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
