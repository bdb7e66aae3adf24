/**
 * What an engine with hashes of its own calls the blocks of one holder, and what Baton calls them.
 *
 * Owns: an open-addressing table of 20-byte rows (name, own hash, tiers that know the name), at most two thirds full,
 * deletion by moving back. There is one table for each holder that needs one, so forgetting a holder costs nothing.
 */
const ROW = 5
const ROWS_MIN = 16

export class EngineNames {
  #rows = new Int32Array(ROW * ROWS_MIN)
  #count = 0
  /** Own hash of the name that `find` found. */
  low = 0
  high = 0

  get count(): number {
    return this.#count
  }

  get bytes(): number {
    return this.#rows.byteLength
  }

  /** Whether the name is known; `low` and `high` then hold the block's own hash. */
  find(nameLow: number, nameHigh: number): boolean {
    const row = this.#rowOf(nameLow | 0, nameHigh | 0)
    if (this.#rows[row + 4] === 0) return false
    this.low = (this.#rows[row + 2] as number) >>> 0
    this.high = (this.#rows[row + 3] as number) >>> 0
    return true
  }

  /** A tier (a bit) knows the block by this name. A name that meant another block means this one from now on. */
  add(nameLow: number, nameHigh: number, low: number, high: number, tier: number): void {
    if (3 * (this.#count + 1) * ROW > 2 * this.#rows.length) this.#grow()
    const rows = this.#rows
    const row = this.#rowOf(nameLow | 0, nameHigh | 0)
    const isSame = rows[row + 2] === (low | 0) && rows[row + 3] === (high | 0)
    if (rows[row + 4] === 0) this.#count += 1
    rows[row] = nameLow
    rows[row + 1] = nameHigh
    rows[row + 2] = low
    rows[row + 3] = high
    rows[row + 4] = (isSame ? (rows[row + 4] as number) : 0) | tier
  }

  /** The tier has lost the block; the name goes with the last one. */
  drop(nameLow: number, nameHigh: number, tier: number): void {
    const rows = this.#rows
    const row = this.#rowOf(nameLow | 0, nameHigh | 0)
    const tiers = (rows[row + 4] as number) & ~tier
    if (rows[row + 4] === 0) return
    rows[row + 4] = tiers
    if (tiers === 0) this.#delete(row)
  }

  #home(nameLow: number, nameHigh: number): number {
    const rowCount = this.#rows.length / ROW
    const mixed = Math.imul(nameLow ^ Math.imul(nameHigh, 0x85ebca6b), 0x9e3779b1)
    return (mixed >>> 7) & (rowCount - 1)
  }

  /** The row of a name, or the free row where it belongs. */
  #rowOf(nameLow: number, nameHigh: number): number {
    const rows = this.#rows
    let row = ROW * this.#home(nameLow, nameHigh)
    while (rows[row + 4] !== 0 && (rows[row] !== nameLow || rows[row + 1] !== nameHigh)) {
      row += ROW
      if (row === rows.length) row = 0
    }
    return row
  }

  #delete(hole: number): void {
    const rows = this.#rows
    const mask = rows.length / ROW - 1
    this.#count -= 1
    for (let row = hole; ;) {
      row = row + ROW === rows.length ? 0 : row + ROW
      if (rows[row + 4] === 0) break
      const home = this.#home(rows[row] as number, rows[row + 1] as number)
      const isMovable = ((row / ROW - home) & mask) >= (((row - hole) / ROW) & mask)
      if (!isMovable) continue
      rows.copyWithin(hole, row, row + ROW)
      hole = row
    }
    rows[hole + 4] = 0
  }

  #grow(): void {
    const old = this.#rows
    this.#rows = new Int32Array(2 * old.length)
    for (let row = 0; row < old.length; row += ROW) {
      if (old[row + 4] === 0) continue
      const target = this.#rowOf(old[row] as number, old[row + 1] as number)
      this.#rows.set(old.subarray(row, row + ROW), target)
    }
  }
}
