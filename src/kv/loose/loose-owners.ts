/**
 * Loose blocks with their owners and ages, kept consistent: what happens when a block loses an owner or all of them.
 *
 * "The block found" is the current row of the table (`LooseTable`). When the last block is removed, memory is released
 * if there is much of it.
 */
import { LooseAges } from './loose-ages.ts'
import { LooseTable } from './loose-table.ts'
import { ageOf, FOLLOWED, REF_BITS, withRef } from './loose-word.ts'
import { OwnerLists } from './owner-lists.ts'
import { Tenancies } from './tenancies.ts'

/** This much memory stays allocated when there is no block. */
const KEPT_BYTES = 1 << 16

/** Is told when a loose block (signed halves of its hash) with a run after it is removed. */
export interface LooseWatcher {
  droppedLoose(low: number, high: number): void
  /** All loose blocks are removed. */
  droppedAllLoose(): void
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

  /** Removes one owner of the block found, and with the last owner the block; returns whether the block was removed. */
  release(number: number): boolean {
    const { word } = this.table
    const ref = word >> REF_BITS
    this.owners.lost(number)
    if (ref > 0) {
      this.forget(word)
      this.table.deleteOnly()
      return true
    }
    this.table.word = withRef(word, this.lists.remove(ref, number))
    return false
  }

  /** Removes the block found with all its owners. */
  loseAll(): void {
    const { word } = this.table
    const ref = word >> REF_BITS
    const count = this.lists.lengthOf(ref)
    for (let i = 0; i < count; i++) this.owners.lost(this.lists.ownerAt(ref, i))
    this.lists.release(ref)
    this.forget(word)
  }

  /** Bookkeeping for the removal of the block found, whose word is given. */
  forget(word: number): void {
    this.ages.lost(ageOf(word))
    if ((word & FOLLOWED) !== 0) this.#watcher.droppedLoose(this.table.low, this.table.high)
  }

  /** Releases the memory if no block is left; a little is kept, because one block may come and go many times. */
  clearIfEmpty(): void {
    if (this.table.count > 0 || this.table.bytes + this.owners.bytes <= KEPT_BYTES) return
    this.#clear()
  }

  /** No holder has a block any more: removes the blocks of those that have left, without visiting them. */
  dropGone(): void {
    if (this.table.count > 0) {
      this.#watcher.droppedAllLoose()
      this.#clear()
    } else this.clearIfEmpty()
  }

  #clear(): void {
    this.table.clear()
    this.lists.clear()
    this.owners.clear()
    this.ages.clear()
  }
}
