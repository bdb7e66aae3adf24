/**
 * Background work on loose blocks: aging, cleaning up blocks of departed holders, evicting the oldest.
 *
 * Owns the passes over all blocks. Each pass advances by one segment of the table per event, so that no call takes
 * long.
 */
import type { LooseAges } from './loose-ages.ts'
import type { LooseOwners } from './loose-owners.ts'
import type { LooseTable } from './loose-table.ts'
import { ageOf, REF_BITS, withAge } from './loose-word.ts'
import type { OwnerLists } from './owner-lists.ts'
import type { Tenancies } from './tenancies.ts'

/** Cleaning starts when more than one eighth of all owner entries belong to ended stays. */
const DEAD_SHARE = 8
/** Segments that are cleaned at once when a holder leaves. */
const SWEEP_SEGMENTS = 4
/** Minimum number of blocks evicted at once; the segment in progress is always finished. */
const EVICTED_MIN = 256

export class LooseUpkeep {
  readonly #blocks: LooseOwners
  readonly #table: LooseTable
  readonly #lists: OwnerLists
  readonly #owners: Tenancies
  readonly #ages: LooseAges
  #sweepAt = 0
  #evictAt = 0
  /** Next segment of a pass that merges ages; -1: no such pass. */
  #mergeAt = -1
  /** The index's clock: number of events. */
  tick = 0

  constructor(blocks: LooseOwners) {
    this.#blocks = blocks
    this.#table = blocks.table
    this.#lists = blocks.lists
    this.#owners = blocks.owners
    this.#ages = blocks.ages
  }

  /** The tick at which the oldest blocks were stored or queried. */
  get oldestTick(): number {
    const { oldest } = this.#ages
    return oldest < 0 ? this.tick : this.#ages.begunOf(oldest)
  }

  /** One step of all passes in progress. */
  tend(): void {
    this.#sweep()
    if (this.#mergeAt >= 0) this.#merge()
    else if (this.#ages.tend(this.tick)) this.#mergeAt = 0
  }

  /** A holder has left: the first steps of cleaning up its blocks. */
  tendToGone(): void {
    if (this.#table.count === 0) return
    if (this.#owners.live === 0) {
      this.#blocks.dropGone()
      return
    }
    for (let i = 0; i < SWEEP_SEGMENTS; i++) this.#sweep()
  }

  /** Evicts some of the oldest blocks; false if there are none. */
  evictOldest(): boolean {
    const { oldest } = this.#ages
    if (oldest < 0) return false
    const table = this.#table
    const all = this.#ages.countOf(oldest)
    const enough = Math.min(all, EVICTED_MIN)
    while (all - this.#ages.countOf(oldest) < enough) {
      this.#evictAt = this.#evictAt + 1 < table.top ? this.#evictAt + 1 : 0
      const segment = this.#evictAt
      for (let row = 0; row < table.rowsOf(segment); row++) {
        while (table.goTo(segment, row) && ageOf(table.word) === oldest) {
          this.#blocks.loseAll()
          table.deleteOnly()
        }
      }
      if (table.count > 0) table.tidy(segment)
    }
    this.#blocks.clearIfEmpty()
    return true
  }

  /** Gives the block found the current age. */
  renew(): void {
    const { word } = this.#table
    if (ageOf(word) === this.#ages.now) return
    this.#ages.lost(ageOf(word))
    this.#ages.gained()
    this.#table.word = withAge(word, this.#ages.now)
  }

  /** Cleans one segment, if there is enough to clean up. */
  #sweep(): void {
    const { live, dead } = this.#owners
    if (DEAD_SHARE * dead <= live) return
    const table = this.#table
    this.#sweepAt = this.#sweepAt + 1 < table.top ? this.#sweepAt + 1 : 0
    const segment = this.#sweepAt
    for (let row = 0; row < table.rowsOf(segment); row++) {
      while (table.goTo(segment, row) && this.#sweepFound());
    }
    if (table.count === 0) this.#blocks.clearIfEmpty()
    else table.tidy(segment)
  }

  /** Removes one ended stay from the block found; returns whether its row may need more work. */
  #sweepFound(): boolean {
    const ref = this.#table.word >> REF_BITS
    const count = this.#lists.lengthOf(ref)
    for (let i = 0; i < count; i++) {
      const owner = this.#lists.ownerAt(ref, i)
      if (this.#owners.holderOf(owner) >= 0) continue
      this.#blocks.release(owner)
      return true
    }
    return false
  }

  /** One step of a pass that gives old blocks a common age. */
  #merge(): void {
    const table = this.#table
    const segment = this.#mergeAt
    if (segment >= table.top) {
      this.#mergeAt = -1
      return
    }
    for (let row = 0; row < table.rowsOf(segment); row++) {
      if (!table.goTo(segment, row)) continue
      const { word } = table
      const age = this.#ages.merged(ageOf(word))
      if (age !== ageOf(word)) table.word = withAge(word, age)
    }
    this.#mergeAt += 1
  }
}
