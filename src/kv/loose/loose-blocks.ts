/**
 * Blocks by themselves: of short chains, because a run of a few blocks would cost many times what they are, and of chains
 * that are evicted in no order, because nothing then need be known but the block.
 *
 * A flat set: hash -> who has it. Because a sequence hash names its whole prefix, nothing need be known of the chain. A
 * block costs its row in the table, 14 to 24 bytes, whatever the length of its chain.
 *
 *   word of a row   | ref 24 | age 7 | is followed 1 |   ref > 0: the one stay that has it (`Tenancies`);
 *                                                        ref < 0: -ref - 1 is where their list is (`OwnerLists`), by fours
 *
 * Owns: table, ages and owners, kept in step. A holder that goes is forgotten at once; what it had is swept up step by step.
 * "The block found" is the one that `lookup` has found last; it is good until something is added or taken away.
 * Invariant: a block is loose or in a run, never both; whoever adds one has looked.
 */
import type { PrefixMatches } from '../prefix/prefix-matches.ts'
import { LooseAges } from './loose-ages.ts'
import { LooseTable } from './loose-table.ts'
import { OwnerLists } from './owner-lists.ts'
import { Tenancies } from './tenancies.ts'

/** Who keeps something under the hash (signed halves) of a loose block that is followed. */
interface LooseWatcher {
  droppedLoose(low: number, high: number): void
}

const REF_BITS = 8
const FLAG_MASK = (1 << REF_BITS) - 1
const AGE_SHIFT = 1
const AGE_MASK = 127
const FOLLOWED = 1
/** All but the age. */
const OWN_MASK = ~(127 << AGE_SHIFT)
/** A row and its bits in a segment that has just grown. */
const BLOCK_BYTES = 23
/** Words of owner lists that can be named. */
const LIST_WORDS_MAX = 1 << 24

/** Ended stays are swept up when they are more than this share of all. */
const DEAD_SHARE = 8
/** Blocks of an event whose memory is asked for at once. */
const TOUCHED = 32
/** Segments that are swept at once when a holder goes. */
const SWEEP_SEGMENTS = 4
/** Blocks that are given up at once: so many, and the rest of a segment. */
const EVICTED_MIN = 256
/** Ages that the blocks which fit into memory are of. */
const AGES_WANTED = 64
const AGE_BLOCKS_MIN = 64

const ageOf = (word: number): number => (word >> AGE_SHIFT) & AGE_MASK
const withAge = (word: number, age: number): number =>
  (word & ~(AGE_MASK << AGE_SHIFT)) | (age << AGE_SHIFT)
const withRef = (word: number, ref: number): number => (ref << REF_BITS) | (word & FLAG_MASK)
const listOf = (ref: number): number => (-ref - 1) << 2
const refOf = (list: number): number => -(list >> 2) - 1

export class LooseBlocks {
  readonly #watcher: LooseWatcher
  readonly #ageBlocks: number
  #table = new LooseTable()
  #lists = new OwnerLists()
  #owners = new Tenancies()
  #ages: LooseAges
  #sweepAt = 0
  #evictAt = 0
  /** Next segment of a pass that merges ages; -1: none is under way. */
  #mergeAt = -1
  /** The time of the index, in events. */
  tick = 0
  /** Whether the last block that `match` looked at was held all the way, and how many owners it has. */
  isHeld = false
  ownerCount = 0
  /** What `touch` has read, so that its reads are not optimised away. */
  touched = 0

  /** `blocksMax`: about how many blocks fit into memory. */
  constructor(watcher: LooseWatcher, blocksMax = 1 << 20) {
    this.#watcher = watcher
    this.#ageBlocks = Math.max(AGE_BLOCKS_MIN, Math.floor(blocksMax / AGES_WANTED))
    this.#ages = new LooseAges(this.#ageBlocks)
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

  /** When the oldest blocks came, as a tick. */
  get oldestTick(): number {
    const { oldest } = this.#ages
    return oldest < 0 ? this.tick : this.#ages.begunOf(oldest)
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

  /** Blocks `from` .. `to` of a chain; one that is here gets one more holder. */
  add(hashes: Uint32Array, from: number, to: number, holder: number): void {
    const table = this.#table
    const number = this.#owners.enter(holder)
    const word = (number << REF_BITS) | (this.#ages.now << AGE_SHIFT)
    let added = 0
    for (let i = from; i < to; i++) {
      const low = (hashes[2 * i] as number) | 0
      if (table.add(low, (hashes[2 * i + 1] as number) | 0, word)) added += 1
      else this.hold(holder)
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
    if (table.count === 0) this.#reset()
    return i
  }

  #removeFar(number: number, low: number, high: number): boolean {
    const table = this.#table
    if (!table.lookup(low, high)) return false
    const { word } = table
    const ref = word >> REF_BITS
    if (ref === number) {
      this.#owners.lost(number)
      this.#forget(word)
      table.delete()
    } else if (ref < 0 && this.#lists.has(listOf(ref), number)) this.#release(number)
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
    this.#loseAll()
    this.#table.delete()
    if (this.#table.count === 0) this.#reset()
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
    if (this.#table.count === 0) return
    if (this.#owners.live === 0) {
      while (this.evictOldest());
      return
    }
    for (let i = 0; i < SWEEP_SEGMENTS; i++) this.sweep()
  }

  /** One step of what takes a pass over all blocks. */
  tend(): void {
    this.sweep()
    if (this.#mergeAt >= 0) this.#merge()
    else if (this.#ages.tend(this.tick)) this.#mergeAt = 0
  }

  /** Sweeps one segment, if there is enough to be swept up. */
  sweep(): void {
    const { live, dead } = this.#owners
    if (DEAD_SHARE * dead <= live) return
    const table = this.#table
    this.#sweepAt = this.#sweepAt + 1 < table.top ? this.#sweepAt + 1 : 0
    const segment = this.#sweepAt
    for (let row = 0; row < table.rowsOf(segment); row++) {
      while (table.goTo(segment, row) && this.#sweepFound());
    }
    this.#tidy(segment)
  }

  /** Gives up some of the oldest blocks; false when there is none. */
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
          this.#loseAll()
          table.deleteOnly()
        }
      }
      if (table.count > 0) table.tidy(segment)
    }
    if (table.count === 0) this.#reset()
    return true
  }

  /** The block found is as one that has just come. */
  renew(): void {
    const { word } = this.#table
    if (ageOf(word) === this.#ages.now) return
    this.#ages.lost(ageOf(word))
    this.#ages.gained()
    this.#table.word = withAge(word, this.#ages.now)
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

  /** One owner less of the block found, which goes with its last one; returns whether it has gone. */
  #release(number: number): boolean {
    const { word } = this.#table
    const ref = word >> REF_BITS
    this.#owners.lost(number)
    if (ref > 0) {
      this.#forget(word)
      this.#table.deleteOnly()
      return true
    }
    const list = listOf(ref)
    if (this.#lists.remove(list, number) > 1) return false
    this.#table.word = withRef(word, this.#lists.ownerAt(list, 0))
    this.#lists.release(list)
    return false
  }

  /** The block found has no owner from now on, and goes. */
  #loseAll(): void {
    const { word } = this.#table
    const ref = word >> REF_BITS
    if (ref > 0) this.#owners.lost(ref)
    else {
      const list = listOf(ref)
      for (let k = 0; k < this.#lists.lengthOf(list); k++) {
        this.#owners.lost(this.#lists.ownerAt(list, k))
      }
      this.#lists.release(list)
    }
    this.#forget(word)
  }

  #forget(word: number): void {
    this.#ages.lost(ageOf(word))
    if ((word & FOLLOWED) !== 0) this.#watcher.droppedLoose(this.#table.low, this.#table.high)
  }

  /** Takes one ended stay from the block found; returns whether there may be more to do in its row. */
  #sweepFound(): boolean {
    const ref = this.#table.word >> REF_BITS
    const gone = ref > 0 ? this.#goneOf(ref) : this.#goneIn(listOf(ref))
    if (gone === 0) return false
    this.#release(gone)
    return true
  }

  #goneOf(owner: number): number {
    return this.#owners.holderOf(owner) < 0 ? owner : 0
  }

  #goneIn(list: number): number {
    for (let k = 0; k < this.#lists.lengthOf(list); k++) {
      const owner = this.#lists.ownerAt(list, k)
      if (this.#owners.holderOf(owner) < 0) return owner
    }
    return 0
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

  #tidy(segment: number): void {
    if (this.#table.count === 0) this.#reset()
    else this.#table.tidy(segment)
  }

  #reset(): void {
    this.#table = new LooseTable()
    this.#lists = new OwnerLists()
    this.#owners = new Tenancies()
    this.#ages = new LooseAges(this.#ageBlocks)
    this.#sweepAt = 0
    this.#evictAt = 0
    this.#mergeAt = -1
  }
}
