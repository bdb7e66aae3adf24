/**
 * Hash → block number: open addressing in typed arrays, because a `Map` with 53-bit keys took a third of the time of
 * a simulated fleet. Hashes are uniformly distributed, so they index the table directly.
 *
 * Blocks are numbered from 1; 0 marks a free cell.
 */
const CELLS_FIRST = 128

export class BlockTable {
  /** Per cell: hash low, hash high, block. */
  #cells = new Uint32Array(3 * CELLS_FIRST)
  #mask = CELLS_FIRST - 1
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The block with this hash; 0: none. */
  get(low: number, high: number): number {
    return this.#cells[3 * this.#cellOf(low, high) + 2]!
  }

  /** Inserts the block, unless there is one with this hash: then that one is returned and nothing changes. */
  putFirst(low: number, high: number, block: number): number {
    if (2 * (this.#size + 1) > this.#mask + 1) this.#grow()
    const at = 3 * this.#cellOf(low, high)
    const cells = this.#cells
    const first = cells[at + 2]!
    if (first !== 0) return first
    this.#size += 1
    cells[at] = low
    cells[at + 1] = high
    cells[at + 2] = block
    return 0
  }

  /** Replaces `block` by `after` (0: removes it), if it is the one in the table; returns the one in the table. */
  replace(low: number, high: number, block: number, after: number): number {
    const cell = this.#cellOf(low, high)
    const found = this.#cells[3 * cell + 2]!
    if (found !== block) return found
    if (after === 0) this.#delete(cell)
    else this.#cells[3 * cell + 2] = after
    return found
  }

  #delete(cell: number): void {
    let gap = cell
    const cells = this.#cells
    this.#size -= 1
    // Backward-shift deletion, so that no tombstone is needed.
    const mask = this.#mask
    for (let at = (gap + 1) & mask; cells[3 * at + 2] !== 0; at = (at + 1) & mask) {
      const home = this.#homeOf(cells[3 * at]!, cells[3 * at + 1]!)
      if (((at - home) & mask) < ((at - gap) & mask)) continue
      cells[3 * gap] = cells[3 * at]!
      cells[3 * gap + 1] = cells[3 * at + 1]!
      cells[3 * gap + 2] = cells[3 * at + 2]!
      gap = at
    }
    cells[3 * gap + 2] = 0
  }

  #cellOf(low: number, high: number): number {
    const cells = this.#cells
    let cell = this.#homeOf(low, high)
    for (;;) {
      const at = 3 * cell
      if (cells[at + 2] === 0 || (cells[at] === low && cells[at + 1] === high)) return cell
      cell = (cell + 1) & this.#mask
    }
  }

  #homeOf(low: number, high: number): number {
    return (low ^ Math.imul(high, 0x9e3779b1)) & this.#mask
  }

  #grow(): void {
    const old = this.#cells
    this.#cells = new Uint32Array(2 * old.length)
    this.#mask = 2 * this.#mask + 1
    this.#size = 0
    for (let at = 0; at < old.length; at += 3)
      if (old[at + 2] !== 0) this.putFirst(old[at]!, old[at + 1]!, old[at + 2]!)
  }
}
