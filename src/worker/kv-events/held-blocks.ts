/**
 * The blocks that one worker holds in one tier: how many copies of each, and its parent.
 *
 *   row (8 words)   | hash low, high | parent low, high | local hash low, high | copies | flags |
 *
 * An open-addressing table in one `Uint32Array`: a block takes 32 bytes, and a step of a busy engine allocates
 * nothing. Block hashes are uniformly distributed, so they index the table directly.
 */
import { SlotMarks } from './slot-marks.ts'

const STRIDE = 8
const LOW = 0
const HIGH = 1
const PARENT_LOW = 2
const PARENT_HIGH = 3
const LOCAL_LOW = 4
const LOCAL_HIGH = 5
const REFS = 6
const FLAGS = 7
const HAS_PARENT = 1
const HAS_LOCAL = 2

export class HeldBlocks {
  #cells = new Uint32Array(64 * STRIDE)
  #capacity = 64
  #count = 0
  /** Of the snapshots in progress; usually none. */
  readonly #marks: SlotMarks[] = []

  /** Number of distinct blocks. */
  get size(): number {
    return this.#count
  }

  has(low: number, high: number): boolean {
    return this.#cells[this.#slotOf(low, high) * STRIDE + REFS] !== 0
  }

  /** Adds a copy; true if it is the first. */
  add(
    low: number,
    high: number,
    parent: readonly [number, number] | null,
    local: readonly [number, number] | null,
  ): boolean {
    if (2 * (this.#count + 1) > this.#capacity) this.#grow()
    const cell = this.#slotOf(low, high) * STRIDE
    const cells = this.#cells
    if (cells[cell + REFS] !== 0) {
      cells[cell + REFS] = (cells[cell + REFS] as number) + 1
      return false
    }
    cells[cell + LOW] = low
    cells[cell + HIGH] = high
    cells[cell + PARENT_LOW] = parent === null ? 0 : parent[0]
    cells[cell + PARENT_HIGH] = parent === null ? 0 : parent[1]
    cells[cell + LOCAL_LOW] = local === null ? 0 : local[0]
    cells[cell + LOCAL_HIGH] = local === null ? 0 : local[1]
    cells[cell + REFS] = 1
    cells[cell + FLAGS] = (parent === null ? 0 : HAS_PARENT) | (local === null ? 0 : HAS_LOCAL)
    this.#count++
    for (const marks of this.#marks) marks.rowAdded()
    return true
  }

  /** Removes a copy; true if none is left, or the block was never known. */
  remove(low: number, high: number): boolean {
    const slot = this.#slotOf(low, high)
    const cell = slot * STRIDE
    const refs = this.#cells[cell + REFS] as number
    if (refs === 0) return true
    if (refs > 1) {
      this.#cells[cell + REFS] = refs - 1
      return false
    }
    this.#count--
    for (const marks of this.#marks) marks.rowRemoved(slot)
    this.#closeGap(slot)
    return true
  }

  clear(): void {
    this.#cells.fill(0)
    this.#count = 0
    for (const marks of this.#marks) marks.cleared()
  }

  get capacity(): number {
    return this.#capacity
  }

  isRow(slot: number): boolean {
    return this.#cells[slot * STRIDE + REFS] !== 0
  }

  /** -1: the block is not held. */
  rowOf(low: number, high: number): number {
    const slot = this.#slotOf(low, high)
    return this.isRow(slot) ? slot : -1
  }

  parentAt(slot: number): readonly [number, number] | null {
    const cell = slot * STRIDE
    const cells = this.#cells
    if (((cells[cell + FLAGS] as number) & HAS_PARENT) === 0) return null
    return [cells[cell + PARENT_LOW] as number, cells[cell + PARENT_HIGH] as number]
  }

  /** The row of a block's parent; -1: it has none, or the parent is not held. */
  parentRowAt(slot: number): number {
    const cell = slot * STRIDE
    const cells = this.#cells
    if (((cells[cell + FLAGS] as number) & HAS_PARENT) === 0) return -1
    return this.rowOf(cells[cell + PARENT_LOW] as number, cells[cell + PARENT_HIGH] as number)
  }

  hasLocalAt(slot: number): boolean {
    return ((this.#cells[slot * STRIDE + FLAGS] as number) & HAS_LOCAL) !== 0
  }

  copyHash(slot: number, into: Uint32Array, at: number): void {
    into[at] = this.#cells[slot * STRIDE + LOW] as number
    into[at + 1] = this.#cells[slot * STRIDE + HIGH] as number
  }

  copyLocal(slot: number, into: Uint32Array, at: number): void {
    into[at] = this.#cells[slot * STRIDE + LOCAL_LOW] as number
    into[at + 1] = this.#cells[slot * STRIDE + LOCAL_HIGH] as number
  }

  /** Marks that follow the rows until `drop`. */
  track(): SlotMarks {
    const marks = new SlotMarks(this.#capacity, this.#count)
    this.#marks.push(marks)
    return marks
  }

  drop(marks: SlotMarks): void {
    const at = this.#marks.indexOf(marks)
    if (at !== -1) this.#marks.splice(at, 1)
  }

  /** The slot of a block, or the free one where it belongs. */
  #slotOf(low: number, high: number): number {
    const mask = this.#capacity - 1
    const cells = this.#cells
    let slot = this.#homeOf(low, high)
    for (;;) {
      const cell = slot * STRIDE
      if (cells[cell + REFS] === 0) return slot
      if (cells[cell + LOW] === low && cells[cell + HIGH] === high) return slot
      slot = (slot + 1) & mask
    }
  }

  #homeOf(low: number, high: number): number {
    return (low ^ Math.imul(high, 0x9e3779b1)) & (this.#capacity - 1)
  }

  /** Backward-shift deletion: moves rows into the gap, so that no tombstone is needed. */
  #closeGap(emptied: number): void {
    const mask = this.#capacity - 1
    const cells = this.#cells
    let gap = emptied
    for (let at = (gap + 1) & mask; cells[at * STRIDE + REFS] !== 0; at = (at + 1) & mask) {
      const cell = at * STRIDE
      const home = this.#homeOf(cells[cell + LOW] as number, cells[cell + HIGH] as number)
      if (((at - home) & mask) < ((at - gap) & mask)) continue
      // For eight cells a loop is much faster than the built-in copy functions.
      const into = gap * STRIDE
      for (let i = 0; i < STRIDE; i++) cells[into + i] = cells[cell + i] as number
      for (const marks of this.#marks) marks.rowMoved(at, gap)
      gap = at
    }
    const emptyCell = gap * STRIDE
    for (let i = 0; i < STRIDE; i++) cells[emptyCell + i] = 0
  }

  #grow(): void {
    const old = this.#cells
    this.#capacity *= 2
    this.#cells = new Uint32Array(this.#capacity * STRIDE)
    const moved = this.#marks.map((marks) => marks.resized(this.#capacity))
    for (let cell = 0; cell < old.length; cell += STRIDE) {
      if (old[cell + REFS] === 0) continue
      const slot = this.#slotOf(old[cell + LOW] as number, old[cell + HIGH] as number)
      const into = slot * STRIDE
      for (let i = 0; i < STRIDE; i++) this.#cells[into + i] = old[cell + i] as number
      for (const tell of moved) tell(cell / STRIDE, slot)
    }
  }
}
