/**
 * The blocks that one worker holds in one tier: how many copies of each, and its parent.
 *
 *   row (8 words)   | hash low, high | parent low, high | local hash low, high | copies | flags |
 *
 * An open-addressing table in one `Uint32Array`: a block takes 32 bytes, and a step of a busy engine allocates
 * nothing. Block hashes are uniformly distributed, so they index the table directly.
 */
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

/** A chain of blocks as in a `stored` event. */
interface BlockRun {
  readonly parent: readonly [number, number] | null
  readonly hashes: Uint32Array
  readonly localHashes: Uint32Array
}

export class HeldBlocks {
  #cells = new Uint32Array(64 * STRIDE)
  #capacity = 64
  #count = 0

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
    this.#closeGap(slot)
    return true
  }

  clear(): void {
    this.#cells.fill(0)
    this.#count = 0
  }

  /** Every block once, parents before children, in chains as long as possible. */
  runs(): BlockRun[] {
    const isDone = new Uint8Array(this.#capacity)
    const runs: BlockRun[] = []
    for (let slot = 0; slot < this.#capacity; slot++) {
      if (this.#cells[slot * STRIDE + REFS] === 0 || isDone[slot] === 1) continue
      this.#appendRuns(this.#climb(slot, isDone), runs)
    }
    return runs
  }

  /** Slots from `slot` up to the highest held ancestor that is not done yet; marks them as done. */
  #climb(slot: number, isDone: Uint8Array): number[] {
    const path: number[] = []
    for (let at = slot; isDone[at] === 0;) {
      isDone[at] = 1
      path.push(at)
      const cell = at * STRIDE
      if (((this.#cells[cell + FLAGS] as number) & HAS_PARENT) === 0) break
      at = this.#slotOf(
        this.#cells[cell + PARENT_LOW] as number,
        this.#cells[cell + PARENT_HIGH] as number,
      )
      if (this.#cells[at * STRIDE + REFS] === 0) break
    }
    return path.reverse()
  }

  /** One chain per stretch of blocks that all have, or all lack, a local hash. */
  #appendRuns(path: readonly number[], runs: BlockRun[]): void {
    const cells = this.#cells
    const hasLocal = (slot: number): boolean =>
      ((cells[slot * STRIDE + FLAGS] as number) & HAS_LOCAL) !== 0
    for (let from = 0; from < path.length;) {
      const withLocal = hasLocal(path[from] as number)
      let to = from + 1
      while (to < path.length && hasLocal(path[to] as number) === withLocal) to++
      const hashes = new Uint32Array(2 * (to - from))
      const localHashes = new Uint32Array(withLocal ? hashes.length : 0)
      for (let i = from; i < to; i++) {
        const cell = (path[i] as number) * STRIDE
        hashes[2 * (i - from)] = cells[cell + LOW] as number
        hashes[2 * (i - from) + 1] = cells[cell + HIGH] as number
        if (!withLocal) continue
        localHashes[2 * (i - from)] = cells[cell + LOCAL_LOW] as number
        localHashes[2 * (i - from) + 1] = cells[cell + LOCAL_HIGH] as number
      }
      const top = (path[from] as number) * STRIDE
      const parent =
        ((cells[top + FLAGS] as number) & HAS_PARENT) === 0
          ? null
          : ([cells[top + PARENT_LOW] as number, cells[top + PARENT_HIGH] as number] as const)
      runs.push({ parent, hashes, localHashes })
      from = to
    }
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
      gap = at
    }
    const emptyCell = gap * STRIDE
    for (let i = 0; i < STRIDE; i++) cells[emptyCell + i] = 0
  }

  #grow(): void {
    const old = this.#cells
    this.#capacity *= 2
    this.#cells = new Uint32Array(this.#capacity * STRIDE)
    for (let cell = 0; cell < old.length; cell += STRIDE) {
      if (old[cell + REFS] === 0) continue
      const slot = this.#slotOf(old[cell + LOW] as number, old[cell + HIGH] as number)
      const into = slot * STRIDE
      for (let i = 0; i < STRIDE; i++) this.#cells[into + i] = old[cell + i] as number
    }
  }
}
