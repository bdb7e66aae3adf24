/**
 * How many times each block is wanted: a counter for each 64-bit hash, in an open-addressing table.
 *
 * A row is 12 bytes (hash, count); the table is at most two thirds full and deletes by moving back.
 */
const ROW = 3
const ROWS_MIN = 64

export class BlockCounts {
  #rows = new Int32Array(ROW * ROWS_MIN)
  #size = 0

  /** Blocks with a count. */
  get size(): number {
    return this.#size
  }

  get bytes(): number {
    return this.#rows.byteLength
  }

  /** Adds one; returns the new count. */
  add(low: number, high: number): number {
    if (3 * (this.#size + 1) * ROW > 2 * this.#rows.length) this.#grow()
    const row = this.#rowOf(low | 0, high | 0)
    const count = (this.#rows[row + 2] as number) + 1
    this.#rows[row] = low
    this.#rows[row + 1] = high
    this.#rows[row + 2] = count
    if (count === 1) this.#size += 1
    return count
  }

  /** Takes one away; returns what is left. A block without a count stays at zero. */
  drop(low: number, high: number): number {
    const row = this.#rowOf(low | 0, high | 0)
    const count = this.#rows[row + 2] as number
    if (count === 0) return 0
    this.#rows[row + 2] = count - 1
    if (count === 1) this.#delete(row)
    return count - 1
  }

  #home(low: number, high: number): number {
    const mixed = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1)
    return (mixed >>> 7) & (this.#rows.length / ROW - 1)
  }

  #rowOf(low: number, high: number): number {
    const rows = this.#rows
    let row = ROW * this.#home(low, high)
    while (rows[row + 2] !== 0 && (rows[row] !== low || rows[row + 1] !== high)) {
      row += ROW
      if (row === rows.length) row = 0
    }
    return row
  }

  #delete(hole: number): void {
    const rows = this.#rows
    const mask = rows.length / ROW - 1
    this.#size -= 1
    for (let row = hole; ;) {
      row = row + ROW === rows.length ? 0 : row + ROW
      if (rows[row + 2] === 0) break
      const home = this.#home(rows[row] as number, rows[row + 1] as number)
      if (((row / ROW - home) & mask) < (((row - hole) / ROW) & mask)) continue
      rows.copyWithin(hole, row, row + ROW)
      hole = row
    }
    rows[hole + 2] = 0
  }

  #grow(): void {
    const old = this.#rows
    this.#rows = new Int32Array(2 * old.length)
    for (let row = 0; row < old.length; row += ROW) {
      if (old[row + 2] === 0) continue
      const target = this.#rowOf(old[row] as number, old[row + 1] as number)
      this.#rows.set(old.subarray(row, row + ROW), target)
    }
  }
}
