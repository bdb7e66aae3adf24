/**
 * Marks rows of a `HeldBlocks` table. The table reports how its rows move, so that each mark stays with its row.
 * A new row is not marked.
 */
export class SlotMarks {
  /** By slot; 0 for an empty one. */
  #isMarked: Uint8Array
  #unmarked: number

  constructor(capacity: number, rows: number) {
    this.#isMarked = new Uint8Array(capacity)
    this.#unmarked = rows
  }

  /** Number of rows without a mark. */
  get unmarked(): number {
    return this.#unmarked
  }

  has(slot: number): boolean {
    return this.#isMarked[slot] === 1
  }

  mark(slot: number): void {
    if (this.#isMarked[slot] === 1) return
    this.#isMarked[slot] = 1
    this.#unmarked--
  }

  rowAdded(): void {
    this.#unmarked++
  }

  rowRemoved(slot: number): void {
    if (this.#isMarked[slot] === 0) this.#unmarked--
    this.#isMarked[slot] = 0
  }

  rowMoved(from: number, to: number): void {
    this.#isMarked[to] = this.#isMarked[from] as number
    this.#isMarked[from] = 0
  }

  cleared(): void {
    this.#isMarked.fill(0)
    this.#unmarked = 0
  }

  /** The table has another size. Call the result for each row that it moves. */
  resized(capacity: number): (from: number, to: number) => void {
    const before = this.#isMarked
    const after = new Uint8Array(capacity)
    this.#isMarked = after
    return (from, to) => {
      after[to] = before[from] as number
    }
  }
}
