/**
 * Loose blocks, their owners and their ages, kept in step: what it means that the block found loses an owner, or all.
 *
 * "The block found" is the one that the table is at (`LooseTable`). When the last block goes, all memory does.
 */
import { LooseAges } from './loose-ages.ts'
import { LooseTable } from './loose-table.ts'
import { ageOf, FOLLOWED, listOf, REF_BITS, withRef } from './loose-word.ts'
import { OwnerLists } from './owner-lists.ts'
import { Tenancies } from './tenancies.ts'

/** Who keeps something under the hash (signed halves) of a loose block that is followed. */
export interface LooseWatcher {
  droppedLoose(low: number, high: number): void
}

export class LooseOwners {
  readonly #watcher: LooseWatcher
  readonly table = new LooseTable()
  readonly lists = new OwnerLists()
  readonly owners = new Tenancies()
  readonly ages: LooseAges

  /** A new age begins after `ageBlocks` blocks. */
  constructor(watcher: LooseWatcher, ageBlocks: number) {
    this.#watcher = watcher
    this.ages = new LooseAges(ageBlocks)
  }

  /** One owner less of the block found, which goes with its last one; returns whether it has gone. */
  release(number: number): boolean {
    const { word } = this.table
    const ref = word >> REF_BITS
    this.owners.lost(number)
    if (ref > 0) {
      this.forget(word)
      this.table.deleteOnly()
      return true
    }
    const list = listOf(ref)
    if (this.lists.remove(list, number) > 1) return false
    this.table.word = withRef(word, this.lists.ownerAt(list, 0))
    this.lists.release(list)
    return false
  }

  /** The block found has no owner from now on, and goes. */
  loseAll(): void {
    const { word } = this.table
    const ref = word >> REF_BITS
    if (ref > 0) this.owners.lost(ref)
    else {
      const list = listOf(ref)
      for (let k = 0; k < this.lists.lengthOf(list); k++) {
        this.owners.lost(this.lists.ownerAt(list, k))
      }
      this.lists.release(list)
    }
    this.forget(word)
  }

  /** The block found, with this word, goes. */
  forget(word: number): void {
    this.ages.lost(ageOf(word))
    if ((word & FOLLOWED) !== 0) this.#watcher.droppedLoose(this.table.low, this.table.high)
  }

  /** Gives all memory back, if nothing is left. */
  clearIfEmpty(): void {
    if (this.table.count > 0) return
    this.table.clear()
    this.lists.clear()
    this.owners.clear()
    this.ages.clear()
  }
}
