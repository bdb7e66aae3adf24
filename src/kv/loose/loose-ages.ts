/**
 * When loose blocks came or were last asked for, in few steps: what is oldest goes first when memory is used up.
 *
 * Owns: 128 ages in a ring, how many blocks are of each, and when each began. A new age begins after a share of what the
 * tier can hold; an old one that still has blocks when its place is needed is told to be merged with others (`merged`).
 */
const AGES = 128
const AGE_MASK = AGES - 1
/** Ages that become one when there is no place for a new one. */
const MERGED = 64

export class LooseAges {
  readonly #counts = new Int32Array(AGES)
  readonly #begun = new Int32Array(AGES)
  readonly #length: number
  #now = 0
  #added = 0

  /** A new age begins after so many blocks. */
  constructor(length: number) {
    this.#length = length
  }

  clear(): void {
    this.#counts.fill(0)
    this.#begun.fill(0)
    this.#now = 0
    this.#added = 0
  }

  /** The age of what comes now. */
  get now(): number {
    return this.#now
  }

  /** The oldest age that some block is of, or -1. */
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

  /** So many blocks come, or are asked for again. */
  gained(count = 1): void {
    this.#counts[this.#now] = (this.#counts[this.#now] as number) + count
    this.#added += count
  }

  lost(age: number): void {
    this.#counts[age] = (this.#counts[age] as number) - 1
  }

  /** Begins a new age, if it is time for one; true: a pass over all blocks has to give them the age that `merged` says. */
  tend(tick: number): boolean {
    if (this.#added < this.#length) return false
    const next = (this.#now + 1) & AGE_MASK
    if (this.countOf(next) > 0) return true
    this.#now = next
    this.#added = 0
    this.#begun[next] = tick
    return false
  }

  /** The age that a block of an age is of after a pass. */
  merged(age: number): number {
    const older = (age - this.#now - 1) & AGE_MASK
    if (older >= MERGED - 1) return age
    const target = (this.#now + MERGED) & AGE_MASK
    this.lost(age)
    this.#counts[target] = (this.#counts[target] as number) + 1
    return target
  }
}
