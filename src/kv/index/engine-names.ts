/**
 * Translates an engine's own block hashes of one holder into Baton's sequence hashes.
 *
 *   engine hash ─▶ LooseTable row ─▶ word: | place 28 | tiers 3 |
 *   place ─▶ Baton's hash: two words of `PagedWords`; unused places are linked by their first word
 *
 * Owns which tiers use a name. Each holder that needs one has its own table, so removing a holder means dropping its
 * table. Tables grow and shrink in small steps, and the reads of several names can be prefetched.
 */
import { AHEAD_MAX, LooseTable } from '../loose/loose-table.ts'
import { PagedWords } from '../words/paged-words.ts'

const TIER_BITS = 3
const TIERS = (1 << TIER_BITS) - 1

export class EngineNames {
  readonly #table = new LooseTable()
  /** Baton's hashes by place; place 0 is not used, so that no word is 0. */
  readonly #hashes = new PagedWords()
  #top = 1
  /** The first unused place below `#top`, or 0. */
  #free = 0
  /** Baton's hash of the row that `find` found. */
  low = 0
  high = 0
  /** Depends on what is prefetched, so that the compiler cannot remove the reads. */
  prefetched = 0

  get count(): number {
    return this.#table.count
  }

  get bytes(): number {
    return this.#table.bytes + this.#hashes.bytes
  }

  /** Prefetches what is known about an engine's hash. */
  touch(hashes: Uint32Array, i: number): void {
    this.prefetched = this.#table.prefetch(hashes, i, i + 1)
  }

  /** Returns whether the engine hash is known; `low` and `high` then contain Baton's hash. */
  find(nameLow: number, nameHigh: number): boolean {
    if (!this.#table.lookup(nameLow | 0, nameHigh | 0)) return false
    const place = this.#table.word >>> TIER_BITS
    this.low = this.#hashes.get(2 * place) >>> 0
    this.high = this.#hashes.get(2 * place + 1) >>> 0
    return true
  }

  /**
   * A tier (one bit) knows blocks by these engine hashes. If a hash meant another block before, the new meaning wins;
   * hashes that are equal to Baton's need no name.
   */
  add(names: Uint32Array, own: Uint32Array, tier: number): void {
    const count = own.length >> 1
    for (let i = 0; i < count; i++) {
      if (i % AHEAD_MAX === 0) this.#prefetch(names, i, count)
      const low = own[2 * i] as number
      const high = own[2 * i + 1] as number
      const nameLow = names[2 * i] as number
      const nameHigh = names[2 * i + 1] as number
      if (nameLow !== low || nameHigh !== high)
        this.#add(nameLow | 0, nameHigh | 0, low, high, tier)
    }
  }

  #add(nameLow: number, nameHigh: number, low: number, high: number, tier: number): void {
    const table = this.#table
    if (this.find(nameLow, nameHigh)) {
      const isSame = this.low === low && this.high === high
      table.word = isSame ? table.word | tier : (table.word & ~TIERS) | tier
      if (!isSame) this.#write(table.word >>> TIER_BITS, low, high)
      return
    }
    const place = this.#free === 0 ? this.#top++ : this.#free
    if (place === this.#free) this.#free = this.#hashes.get(2 * place)
    this.#write(place, low, high)
    table.add(nameLow, nameHigh, (place << TIER_BITS) | tier)
  }

  #write(place: number, low: number, high: number): void {
    this.#hashes.reserve(2 * place + 2)
    this.#hashes.set(2 * place, low)
    this.#hashes.set(2 * place + 1, high)
  }

  /** A tier has removed blocks `from` .. `to`: replaces their engine hashes by Baton's. Unknown hashes stay as they are. */
  take(hashes: Uint32Array, from: number, to: number, tier: number): void {
    const table = this.#table
    const own = this.#hashes
    for (let i = from; i < to; i++) {
      if ((i - from) % AHEAD_MAX === 0) this.#prefetch(hashes, i, to)
      const low = (hashes[2 * i] as number) | 0
      const high = (hashes[2 * i + 1] as number) | 0
      // Usually no other tier uses the name.
      let word = table.deleteNear(low, high, tier, TIERS)
      if (word === 0) word = this.#drop(low, high, tier)
      if (word === 0) continue
      const place = word >>> TIER_BITS
      hashes[2 * i] = own.get(2 * place)
      hashes[2 * i + 1] = own.get(2 * place + 1)
      if ((word & TIERS & ~tier) !== 0) continue
      own.set(2 * place, this.#free)
      this.#free = place
    }
  }

  /** Removes a tier from a name, and the name with its last tier; returns its word before, or 0. */
  #drop(low: number, high: number, tier: number): number {
    const table = this.#table
    if (!table.lookup(low, high)) return 0
    const { word } = table
    if ((word & TIERS & ~tier) === 0) table.delete()
    else table.word = word & ~tier
    return word
  }

  /** Prefetches names from a number on, at most up to `end`. */
  #prefetch(hashes: Uint32Array, from: number, end: number): void {
    const to = Math.min(end, from + AHEAD_MAX)
    if (to - from > 1) this.prefetched = this.#table.prefetch(hashes, from, to)
  }
}
