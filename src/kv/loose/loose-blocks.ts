/**
 * Blocks by themselves: of short chains, because a run of a few blocks would cost many times what they are, and of chains
 * that are evicted in no order, because nothing then need be known but the block.
 *
 * A flat set: hash -> who has it. Because a sequence hash names its whole prefix, nothing need be known of the chain. A
 * block costs its row in the table, 14 to 24 bytes, whatever the length of its chain.
 *
 * Owns: what a holder has, gains and loses, and who has the blocks of a prompt. A holder that goes is forgotten at once; what it
 * had is swept up step by step (`LooseUpkeep`).
 * "The block found" is the one that `lookup` has found last; it is good until something is added or taken away.
 * Invariant: a block is here once. Of chains it is loose or in a run, never both; whoever adds one has looked.
 */
import type { PrefixMatches } from '../prefix/prefix-matches.ts'
import { LooseOwners } from './loose-owners.ts'
import type { LooseWatcher } from './loose-owners.ts'
import type { LooseAges } from './loose-ages.ts'
import type { LooseTable } from './loose-table.ts'
import { LooseUpkeep } from './loose-upkeep.ts'
import { ageOf, AGE_SHIFT, FOLLOWED, listOf, LIST_WORDS_MAX, OWN_MASK } from './loose-word.ts'
import { REF_BITS, REF_MASK, refOf, withRef } from './loose-word.ts'
import type { OwnerLists } from './owner-lists.ts'
import type { Tenancies } from './tenancies.ts'

/** A row and its bits in a segment that has just grown. */
const BLOCK_BYTES = 23
/** Blocks of an event whose memory is asked for at once. */
const TOUCHED = 32
/** Ages that the blocks which fit into memory are of. */
const AGES_WANTED = 64
const AGE_BLOCKS_MIN = 64

export class LooseBlocks {
  readonly #blocks: LooseOwners
  readonly #table: LooseTable
  readonly #lists: OwnerLists
  readonly #owners: Tenancies
  readonly #ages: LooseAges
  readonly upkeep: LooseUpkeep
  /** Whether the last block that `match` looked at was held all the way, and how many owners it has. */
  isHeld = false
  ownerCount = 0
  /** What `touch` has read, so that its reads are not optimised away. */
  touched = 0

  /** `blocksMax`: about how many blocks fit into memory. */
  constructor(watcher: LooseWatcher, blocksMax = 1 << 20) {
    const ageBlocks = Math.max(AGE_BLOCKS_MIN, Math.floor(blocksMax / AGES_WANTED))
    this.#blocks = new LooseOwners(watcher, ageBlocks)
    this.#table = this.#blocks.table
    this.#lists = this.#blocks.lists
    this.#owners = this.#blocks.owners
    this.#ages = this.#blocks.ages
    this.upkeep = new LooseUpkeep(this.#blocks)
  }

  /** Different blocks, among them those of holders that have gone and not been swept up. */
  get count(): number {
    return this.#table.count
  }

  /** (holder, block) pairs. */
  get entries(): number {
    return this.#owners.live
  }

  get bytes(): number {
    if (this.#table.count === 0) return 0
    return this.#table.bytes + this.#lists.bytes + this.#owners.bytes
  }

  /** Memory that so many blocks may take while the table grows on: giving up blocks lowers it at once. */
  get bytesNeeded(): number {
    const { count } = this.#table
    if (count === 0) return 0
    return Math.max(this.bytes, BLOCK_BYTES * count + this.#lists.bytes + this.#owners.bytes)
  }

  get isFull(): boolean {
    return 4 * LIST_WORDS_MAX < this.#lists.bytes
  }

  /** Finds a block (signed halves); false: it is not here. */
  lookup(low: number, high: number): boolean {
    return this.#table.count > 0 && this.#table.lookup(low, high)
  }

  /** False: no block has this hash (signed halves), surely and quickly. */
  mayHave(low: number, high: number): boolean {
    return this.#table.count > 0 && this.#table.mayHave(low, high)
  }

  /**
   * Reads the rows of hashes `from` .. `to` and changes nothing: their accesses to memory overlap, and whoever asks for
   * them next finds them in the cache. A bit for each hash, from the lowest on, says that it may be here.
   */
  touch(hashes: Uint32Array, from: number, to: number): number {
    if (this.#table.count === 0) return 0
    this.touched = this.#table.touch(hashes, from, to)
    return this.touched
  }

  /** Whether the holder has the block found. */
  has(holder: number): boolean {
    const number = this.#owners.numberOf(holder)
    if (number === 0) return false
    const ref = this.#table.word >> REF_BITS
    return ref > 0 ? ref === number : this.#lists.has(listOf(ref), number)
  }

  /** The holders of the block found. */
  holders(): number[] {
    const ref = this.#table.word >> REF_BITS
    const numbers =
      ref > 0
        ? [ref]
        : Array.from({ length: this.#lists.lengthOf(listOf(ref)) }, (_, i) =>
            this.#lists.ownerAt(listOf(ref), i),
          )
    return numbers.map((number) => this.#owners.holderOf(number)).filter((holder) => holder >= 0)
  }

  /** Blocks `from` .. `to` of a chain, which are not here. */
  add(hashes: Uint32Array, from: number, to: number, holder: number): void {
    if (mayRepeat(hashes, from, to)) {
      this.addOrHold(hashes, from, to, holder)
      return
    }
    const number = this.#owners.enter(holder)
    const word = (number << REF_BITS) | (this.#ages.now << AGE_SHIFT)
    for (let i = from; i < to; i++) {
      this.#table.add((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0, word)
    }
    this.#ages.gained(to - from)
    this.#owners.gained(number, to - from)
  }

  /** As `add`, for blocks some of which may be here: those get one more holder. */
  addOrHold(hashes: Uint32Array, from: number, to: number, holder: number): void {
    const table = this.#table
    const number = this.#owners.enter(holder)
    let added = 0
    for (let i = from; i < to; i++) {
      const low = (hashes[2 * i] as number) | 0
      const high = (hashes[2 * i + 1] as number) | 0
      if (table.lookup(low, high)) this.hold(holder)
      else {
        table.add(low, high, (number << REF_BITS) | (this.#ages.now << AGE_SHIFT))
        added += 1
      }
    }
    this.#ages.gained(added)
    this.#owners.gained(number, added)
  }

  /** The holder has the block found, too; returns how many owners that makes. */
  hold(holder: number): number {
    const number = this.#owners.enter(holder)
    const { word } = this.#table
    const ref = word >> REF_BITS
    if (ref === number) return 1
    if (ref > 0) {
      if (this.#owners.holderOf(ref) < 0) {
        this.#owners.lost(ref)
        this.#table.word = withRef(word, number)
        this.#owners.gained(number)
        return 1
      }
      this.#table.word = withRef(word, refOf(this.#lists.create(ref, number)))
      this.#owners.gained(number)
      return 2
    }
    const list = listOf(ref)
    if (this.#lists.has(list, number)) return this.#lists.lengthOf(list)
    const longer = this.#lists.add(list, number)
    this.#table.word = withRef(word, refOf(longer))
    this.#owners.gained(number)
    return this.#lists.lengthOf(longer)
  }

  /** The holder loses the blocks from `from` on, up to the first one that it has not had; returns which one that is. */
  remove(holder: number, hashes: Uint32Array, from: number): number {
    const number = this.#owners.numberOf(holder)
    if (number === 0) return from
    const table = this.#table
    const count = hashes.length >> 1
    let own = 0
    let touched = from + 1
    let i = from
    for (; i < count; i++) {
      const low = (hashes[2 * i] as number) | 0
      const high = (hashes[2 * i + 1] as number) | 0
      const word = table.deleteNear(low, high, number << REF_BITS, OWN_MASK)
      if (word !== 0) {
        own += 1
        this.#ages.lost(ageOf(word))
      } else if (!this.#removeFar(number, low, high)) break
      if (i + 1 === touched) {
        // What lies beside a loose block is mostly loose.
        touched = Math.min(count, i + 1 + TOUCHED)
        this.touch(hashes, i + 1, touched)
      }
    }
    if (own > 0) this.#owners.lost(number, own)
    this.#blocks.clearIfEmpty()
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
    } else if (ref < 0 && this.#lists.has(listOf(ref), number)) this.#blocks.release(number)
    else return false
    return true
  }

  /** As `remove`, for one block (signed halves) that only this holder has; false: it is not that, and nothing has changed. */
  removeOwn(holder: number, low: number, high: number): boolean {
    const number = this.#owners.numberOf(holder)
    if (number === 0 || this.#table.count < 2) return false
    const word = this.#table.deleteNear(low, high, number << REF_BITS, OWN_MASK)
    if (word === 0) return false
    this.#ages.lost(ageOf(word))
    this.#owners.lost(number)
    return true
  }

  /** No holder has the block found any more. */
  drop(): void {
    this.#blocks.loseAll()
    this.#table.delete()
    this.#blocks.clearIfEmpty()
  }

  /** Whether something is kept under the hash of the block found: it must be told when the block goes. */
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

  /** What `RunIndex.find` does with block `i` of a prompt, the one found; returns how many holders are found. */
  match(i: number, matches: PrefixMatches, found: number): number {
    const { device, holders } = matches
    const ref = this.#table.word >> REF_BITS
    const count = ref > 0 ? 1 : this.#lists.lengthOf(listOf(ref))
    this.isHeld = false
    this.ownerCount = count
    for (let k = 0; k < count; k++) {
      const holder = this.#owners.holderOf(ref > 0 ? ref : this.#lists.ownerAt(listOf(ref), k))
      if (holder < 0 || (i > 0 && device[holder] !== i)) continue
      if (i === 0) holders[found++] = holder
      device[holder] = i + 1
      this.isHeld = true
    }
    return found
  }

  /**
   * As `match`, for those blocks from `i` on that only the owner of the one before has, who holds all of them up to there: up
   * to which one. Mostly that is the rest of a prompt.
   */
  walkOwn(hashes: Uint32Array, i: number, matches: PrefixMatches): number {
    const { word } = this.#table
    const holder = this.#owners.holderOf(word >> REF_BITS)
    const end = this.#table.walkNear(hashes, i, word, REF_MASK)
    matches.device[holder] = end
    return end
  }

  /** All blocks, for whoever checks them. */
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

/** Whether an event may name a block twice, which no chain does: two agree in a half of their hashes. */
function mayRepeat(hashes: Uint32Array, from: number, to: number): boolean {
  for (let i = 2 * from + 2; i < 2 * to; i += 2) {
    const low = hashes[i]
    for (let k = 2 * from; k < i; k += 2) if (hashes[k] === low) return true
  }
  return false
}
