/**
 * The set of loose blocks: blocks that are stored one by one instead of in runs. Used for chains of
 * less than 7 blocks, of which a run would take more memory, and for chains whose blocks are evicted in no particular
 * order.
 *
 * A flat hash table: sequence hash → owners. A sequence hash identifies the whole prefix, so nothing about the chain
 * has to be stored. A block takes one row of the table, 14 to 24 bytes, independent of the length of its chain.
 *
 *   hash ─▶ LooseTable row ─▶ word (`loose-word.ts`) ─┬▶ one stay in Tenancies ─▶ holder, or a set of them
 *                                                     └▶ a list of stays in OwnerLists
 *
 * Owns adding, removing and matching blocks. When a holder leaves, its stay ends at once; the rows are cleaned up
 * incrementally (`LooseUpkeep`). "The block found" is the result of the last `lookup`; it is valid until the next
 * change. Invariant: a block is in the table at most once, and never in a run as well; the caller checks this before
 * adding.
 */
import type { PrefixMatches } from '../prefix/prefix-matches.ts'
import { LooseOwners } from './loose-owners.ts'
import type { LooseWatcher } from './loose-owners.ts'
import type { LooseAges } from './loose-ages.ts'
import { AHEAD_MAX } from './loose-table.ts'
import type { LooseTable } from './loose-table.ts'
import { LooseUpkeep } from './loose-upkeep.ts'
import { ageOf, AGE_SHIFT, firstIn, FOLLOWED, LIST_WORDS_MAX, OWN_MASK } from './loose-word.ts'
import { isSet, REF_BITS, REF_MASK, setOf, withRef } from './loose-word.ts'
import type { OwnerLists } from './owner-lists.ts'
import type { Tenancies } from './tenancies.ts'

/** Memory of a row in a segment that has just grown. */
export const BLOCK_BYTES = 23
/** With fewer blocks the filters of the table are in the CPU cache anyway. */
const MARKS_AHEAD_MIN = 1 << 17
/** Into how many ages the blocks that fit into memory are divided. */
const AGES_WANTED = 64
const AGE_BLOCKS_MIN = 64
export class LooseBlocks {
  readonly #blocks: LooseOwners
  readonly #table: LooseTable
  readonly #lists: OwnerLists
  readonly #owners: Tenancies
  readonly #ages: LooseAges
  readonly upkeep: LooseUpkeep
  /** Result of the last `match`: whether the block has any owner, and how many. */
  isHeld = false
  ownerCount = 0
  /** Number of blocks ever dropped, which are then in a run. */
  dropped = 0
  /** Whether the last `remove` found its first block. */
  #wasLoose = false

  /** `blocksMax`: approximate number of blocks that fit into memory. */
  constructor(watcher: LooseWatcher, blocksMax = 1 << 20) {
    const ageBlocks = Math.max(AGE_BLOCKS_MIN, Math.floor(blocksMax / AGES_WANTED))
    this.#blocks = new LooseOwners(watcher, ageBlocks)
    this.#table = this.#blocks.table
    this.#lists = this.#blocks.lists
    this.#owners = this.#blocks.owners
    this.#ages = this.#blocks.ages
    this.upkeep = new LooseUpkeep(this.#blocks)
  }

  /** Number of distinct blocks, including those of departed holders that are not cleaned up yet. */
  get count(): number {
    return this.#table.count
  }

  /** Number of (holder, block) pairs. */
  get entries(): number {
    return this.#owners.live
  }

  /** Number of the holder's blocks. */
  entriesOf(holder: number): number {
    const number = this.#owners.numberOf(holder)
    return number === 0 ? 0 : this.#owners.blocksOf(number)
  }

  get bytes(): number {
    if (this.#table.count === 0) return 0
    return this.#table.bytes + this.#lists.bytes + this.#owners.bytes
  }

  /** Memory that this many blocks may need when the table grows; evicting blocks lowers it at once. */
  get bytesNeeded(): number {
    const { count } = this.#table
    if (count === 0) return 0
    return Math.max(this.bytes, BLOCK_BYTES * count + this.#lists.bytes + this.#owners.bytes)
  }

  get isFull(): boolean {
    return 4 * LIST_WORDS_MAX < this.#lists.bytes
  }

  /** Looks up a block (signed halves of its hash); returns whether it was found. */
  lookup(low: number, high: number): boolean {
    return this.#table.count > 0 && this.#table.lookup(low, high)
  }

  /** False if there is certainly no block with this hash (signed halves); cheaper than `lookup`. */
  mayHave(low: number, high: number): boolean {
    return this.#table.count > 0 && this.#table.mayHave(low, high)
  }

  /** Prefetches the rows of hashes `from` .. `to` (at most 32), so that the memory accesses overlap; changes nothing. */
  prefetch(hashes: Uint32Array, from: number, to: number): void {
    if (this.#table.count > 0) this.#table.prefetch(hashes, from, to)
  }

  #prefetchMarks(hashes: Uint32Array, from: number, to: number): void {
    if (to - from < 2 || this.#table.count < MARKS_AHEAD_MIN) return
    this.#table.prefetchMarks(hashes, from, Math.min(to, from + AHEAD_MAX))
  }

  /** Prefetches, and returns a bit per hash, lowest first, that says whether the block may be present. */
  suspects(hashes: Uint32Array, from: number, to: number): number {
    if (this.#table.count === 0) return 0
    if (to - from > 1) this.prefetch(hashes, from, to)
    return this.#table.suspects(hashes, from, to)
  }

  /** Whether the holder owns the block found. */
  has(holder: number): boolean {
    const number = this.#owners.numberOf(holder)
    if (number === 0) return false
    const ref = this.#table.word >> REF_BITS
    return this.#lists.has(ref, number)
  }

  /** The holders of the block found. */
  holders(): number[] {
    const ref = this.#table.word >> REF_BITS
    const numbers = Array.from({ length: this.#lists.lengthOf(ref) }, (_, i) =>
      this.#lists.ownerAt(ref, i),
    )
    return numbers.map((number) => this.#owners.holderOf(number)).filter((holder) => holder >= 0)
  }

  /** Adds blocks `from` .. `to` of a chain, none of which is present. */
  add(hashes: Uint32Array, from: number, to: number, holder: number): void {
    if (mayRepeat(hashes, from, to)) {
      this.addOrHold(hashes, from, to, holder)
      return
    }
    this.#prefetchMarks(hashes, from, to)
    const number = this.#owners.enter(holder)
    const word = (number << REF_BITS) | (this.#ages.now << AGE_SHIFT)
    for (let i = from; i < to; i++) {
      this.#table.add((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0, word)
    }
    this.#ages.gained(to - from)
    this.#owners.gained(number, to - from)
  }

  /** Like `add`, if some blocks may be present: these get one more owner. */
  addOrHold(hashes: Uint32Array, from: number, to: number, holder: number): void {
    const number = this.#owners.enter(holder)
    for (let i = from; i < to; i += AHEAD_MAX) {
      const stop = Math.min(to, i + AHEAD_MAX)
      const present = this.#addAbsent(hashes, i, stop, number)
      for (let left = present; left !== 0; left &= left - 1) {
        const k = 2 * (i + 31 - Math.clz32(left & -left))
        if (this.#table.lookup((hashes[k] as number) | 0, (hashes[k + 1] as number) | 0))
          this.hold(holder)
      }
    }
  }

  /** Adds the absent ones of at most 32 blocks to a stay; returns a bit per block that is present. */
  #addAbsent(hashes: Uint32Array, from: number, to: number, number: number): number {
    this.#prefetchMarks(hashes, from, to)
    const countBefore = this.#table.count
    const word = (number << REF_BITS) | (this.#ages.now << AGE_SHIFT)
    const present = this.#table.addAbsent(hashes, from, to, word)
    const added = this.#table.count - countBefore
    this.#ages.gained(added)
    this.#owners.gained(number, added)
    return present
  }

  /** Adds an owner to the block found; returns the number of its owners. */
  hold(holder: number): number {
    const number = this.#owners.enter(holder)
    const { word } = this.#table
    const ref = word >> REF_BITS
    if (this.#lists.has(ref, number)) return this.#lists.lengthOf(ref)
    const isGone = ref > 0 && this.#owners.holderOf(ref) < 0
    if (isGone) this.#owners.lost(ref)
    const next = isGone ? number : this.#lists.add(ref, number)
    this.#table.word = withRef(word, next)
    this.#owners.gained(number)
    return this.#lists.lengthOf(next)
  }

  /** Removes a holder's blocks from `from` on, up to the first one that it does not own; returns that block's index. */
  remove(holder: number, hashes: Uint32Array, from: number): number {
    const number = this.#owners.numberOf(holder)
    if (number === 0) return from
    const table = this.#table
    const count = hashes.length >> 1
    let own = 0
    // The neighbours of a loose block are usually loose, too, and so are the blocks of the next event.
    let ahead = from
    if (this.#wasLoose) {
      ahead = Math.min(count, from + AHEAD_MAX)
      if (ahead - from > 1) this.prefetch(hashes, from, ahead)
    }
    let i = from
    for (; i < count; i++) {
      const low = (hashes[2 * i] as number) | 0
      const high = (hashes[2 * i + 1] as number) | 0
      const word = table.deleteNear(low, high, number << REF_BITS, OWN_MASK)
      if (word !== 0) {
        own += 1
        this.#ages.lost(ageOf(word))
      } else if (!this.#removeFar(number, low, high)) break
      if (i + 1 >= ahead) {
        ahead = Math.min(count, i + 1 + AHEAD_MAX)
        this.prefetch(hashes, i + 1, ahead)
      }
    }
    this.#wasLoose = i > from
    if (own > 0) this.#owners.lostOfLive(number, own)
    if (this.#owners.live === 0) this.#blocks.dropGone()
    return i
  }

  #removeFar(number: number, low: number, high: number): boolean {
    const table = this.#table
    if (!table.lookup(low, high)) return false
    const { word } = table
    const ref = word >> REF_BITS
    if (ref === number) {
      this.#owners.lost(number)
      this.#blocks.forget(word)
      table.delete()
    } else if (this.#lists.has(ref, number)) this.#blocks.release(number)
    else return false
    return true
  }

  /** Like `remove`, for one block (signed halves); returns whether it was removed. */
  removeOne(holder: number, low: number, high: number): boolean {
    const number = this.#owners.numberOf(holder)
    if (number === 0) return false
    const word = this.#table.deleteNear(low, high, number << REF_BITS, OWN_MASK)
    if (word !== 0) {
      this.#ages.lost(ageOf(word))
      this.#owners.lostOfLive(number, 1)
    } else if (!this.#removeFar(number, low, high)) return false
    if (this.#owners.live === 0) this.#blocks.dropGone()
    return true
  }

  /** Removes the block found with all its owners. */
  drop(): void {
    this.dropped += 1
    this.#blocks.loseAll()
    this.#table.delete()
    this.#blocks.clearIfEmpty()
  }

  /** Whether a run begins after the block found (see `LooseWatcher`), which must be told when the block is removed. */
  get isFollowed(): boolean {
    return (this.#table.word & FOLLOWED) !== 0
  }

  set isFollowed(isFollowed: boolean) {
    const { word } = this.#table
    this.#table.word = isFollowed ? word | FOLLOWED : word & ~FOLLOWED
  }

  removeHolder(holder: number): void {
    this.#owners.leave(holder)
    this.upkeep.tendToGone()
  }

  /** The part of `RunIndex.find` for block `i`, the block found; returns the number of matching holders. */
  match(i: number, matches: PrefixMatches, found: number): number {
    const { device, holders } = matches
    const ref = this.#table.word >> REF_BITS
    const count = this.#lists.lengthOf(ref)
    this.isHeld = false
    this.ownerCount = count
    for (let k = 0, set = setOf(ref); k < count; k++, set &= set - 1) {
      const owner = set === 0 ? this.#lists.ownerAt(ref, k) : firstIn(set)
      const holder = this.#owners.holderOf(owner)
      if (holder < 0 || (i > 0 && device[holder] !== i)) continue
      if (i === 0) holders[found++] = holder
      device[holder] = i + 1
      this.isHeld = true
    }
    return found
  }

  /** Whether the owners of the block found are named by its word alone, so that equal words mean equal owners. */
  get areOwnersInWord(): boolean {
    const ref = this.#table.word >> REF_BITS
    return ref > 0 || isSet(ref)
  }

  /**
   * Like `match`, for the blocks from `i` on that have the same owners as the previous one, the block found, if these
   * are in its word. Returns the index of the first other block. Usually this is the rest of the prompt.
   */
  walkSame(hashes: Uint32Array, i: number, matches: PrefixMatches): number {
    const { device } = matches
    const { word } = this.#table
    const ref = word >> REF_BITS
    const count = hashes.length >> 1
    let end = i
    // The caller has prefetched this many blocks with the previous one.
    for (let to = Math.min(count, i + AHEAD_MAX - 1); ;) {
      end = this.#table.walk(hashes, end, to, word, REF_MASK)
      if (end < to || to === count) break
      to = Math.min(count, end + AHEAD_MAX)
      this.prefetch(hashes, end, to)
    }
    if (end === i) return end
    for (let k = 0; k < this.ownerCount; k++) {
      const holder = this.#owners.holderOf(this.#lists.ownerAt(ref, k))
      if (holder >= 0 && device[holder] === i) device[holder] = end
    }
    return end
  }

  /** All blocks, for invariant checks. */
  each(): { low: number; high: number; holders: number; isFollowed: boolean }[] {
    const table = this.#table
    const blocks = []
    for (let segment = 0; segment < table.top; segment++) {
      for (let row = 0; row < table.rowsOf(segment); row++) {
        if (!table.goTo(segment, row)) continue
        const holders = this.holders().length
        blocks.push({ low: table.low, high: table.high, holders, isFollowed: this.isFollowed })
      }
    }
    return blocks
  }
}

/** Whether an event may name a block twice, which no real chain does: two of its hashes share a half. */
function mayRepeat(hashes: Uint32Array, from: number, to: number): boolean {
  for (let i = 2 * from + 2; i < 2 * to; i += 2) {
    const low = hashes[i]
    for (let k = 2 * from; k < i; k += 2) if (hashes[k] === low) return true
  }
  return false
}
