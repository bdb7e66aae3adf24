/**
 * The ages of loose blocks, in 128 steps, so that the oldest can be evicted first. A block gets the current age when
 * it is stored or queried.
 *
 * Owns a ring of 128 ages with the number of blocks of each and the tick at which each began. A new age begins after
 * a share of the tier's capacity has been added. If the ring is full, the oldest ages are merged (`merged`).
 */
const AGES = 128
const AGE_MASK = AGES - 1
/** Number of ages that are merged into one when the ring is full. */
const MERGED = 64

export class LooseAges {
  readonly #counts = new Int32Array(AGES)
  readonly #begun = new Int32Array(AGES)
  readonly #length: number
  #now = 0
  #added = 0

  /** A new age begins after `length` blocks. */
  constructor(length: number) {
    this.#length = length
  }

  clear(): void {
    this.#counts.fill(0)
    this.#begun.fill(0)
    this.#now = 0
    this.#added = 0
  }

  /** The current age, for blocks that are stored or queried now. */
  get now(): number {
    return this.#now
  }

  /** The oldest age of any block, or -1. */
  get oldest(): number {
    for (let i = 1; i <= AGES; i++) {
      const age = (this.#now + i) & AGE_MASK
      if ((this.#counts[age] as number) > 0) return age
    }
    return -1
  }

  begunOf(age: number): number {
    return this.#begun[age] as number
  }

  countOf(age: number): number {
    return this.#counts[age] as number
  }

  /** `count` blocks were stored, or queried again. */
  gained(count = 1): void {
    this.#counts[this.#now] = (this.#counts[this.#now] as number) + count
    this.#added += count
  }

  lost(age: number): void {
    this.#counts[age] = (this.#counts[age] as number) - 1
  }

  /** Begins a new age if it is time. True: the caller has to go over all blocks and set the age that `merged` returns. */
  tend(tick: number): boolean {
    if (this.#added < this.#length) return false
    const next = (this.#now + 1) & AGE_MASK
    if (this.countOf(next) > 0) return true
    this.#now = next
    this.#added = 0
    this.#begun[next] = tick
    return false
  }

  /** The age of a block after the merge. */
  merged(age: number): number {
    const older = (age - this.#now - 1) & AGE_MASK
    if (older >= MERGED - 1) return age
    const target = (this.#now + MERGED) & AGE_MASK
    this.lost(age)
    this.#counts[target] = (this.#counts[target] as number) + 1
    return target
  }
}
