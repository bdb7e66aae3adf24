/**
 * Blocks of short chains, each by itself: what a run of a few blocks would cost is many times what they are.
 *
 * A flat set: hash -> who has it. Because a sequence hash names its whole prefix, nothing need be known of the chain: a
 * query looks at the next row first, where the next block of a chain that came in one event lies, and else asks the
 * table. A block costs 12 bytes and its slot in the table (4.7 to 9.4 bytes), whatever the length of its chain.
 *
 * Owns: rows, table and owners, kept in step. A holder that goes is forgotten at once; what it had is swept up step by step.
 * Invariant: a block is loose or in a run, never both; whoever adds one has looked.
 */
import type { PrefixMatches } from '../prefix/prefix-matches.ts'
import { LooseFilter } from './loose-filter.ts'
import { CHUNK_ROWS, LooseRows } from './loose-rows.ts'
import { LOOSE_POSITIONS_MAX, LooseTable } from './loose-table.ts'
import { OwnerLists } from './owner-lists.ts'
import { Tenancies } from './tenancies.ts'

/** Who keeps something under the position of a loose block. */
interface LooseWatcher {
  movedLoose(from: number, to: number): void
  droppedLoose(position: number): void
}

/** Ended stays are swept up when they are more than this share of all. */
const DEAD_SHARE = 8
/** Fewer blocks than this lie in the cache anyway. */
const TOUCHED_MIN = 1 << 14
/** Chunks that are swept at once when a holder goes. */
const SWEEP_CHUNKS = 64

export class LooseBlocks {
  readonly #watcher: LooseWatcher
  #rows = new LooseRows()
  #table = new LooseTable(this.#rows)
  #lists = new OwnerLists()
  #owners = new Tenancies()
  #filter = new LooseFilter()
  #sweepAt = 0
  /** The time of the index, in events. */
  tick = 0
  /** Whether the last block that `match` looked at was held all the way, and how many owners it has. */
  isHeld = false
  ownerCount = 0
  /** What `touch` has read, so that its reads are not optimised away. */
  touched = 0

  constructor(watcher: LooseWatcher) {
    this.#watcher = watcher
  }

  /** Different blocks, among them those of holders that have gone and not been swept up. */
  get count(): number {
    return this.#rows.count
  }

  /** (holder, block) pairs. */
  get entries(): number {
    return this.#owners.live
  }

  get bytes(): number {
    if (this.#rows.count === 0) return 0
    return (
      this.#rows.bytes +
      this.#table.bytes +
      this.#lists.bytes +
      this.#owners.bytes +
      this.#filter.bytes
    )
  }

  get isFull(): boolean {
    return this.#rows.top * CHUNK_ROWS >= LOOSE_POSITIONS_MAX - CHUNK_ROWS
  }

  /** When the oldest chunk was begun. */
  get oldestTick(): number {
    return this.#rows.begunOf(this.#rows.oldest)
  }

  /** Position of a block (signed halves), or -1. */
  lookup(low: number, high: number): number {
    return this.#rows.count === 0 ? -1 : this.#table.lookup(low, high)
  }

  /** False: no block has this hash (signed halves), surely and quickly. */
  mayHave(low: number, high: number): boolean {
    return this.#rows.count > 0 && this.#filter.mayHave(low, high)
  }

  /**
   * Reads what is kept of hashes `from` .. `to`, in passes, and changes nothing: their accesses to memory overlap, and
   * whoever asks for them next finds them in the cache.
   */
  touch(hashes: Uint32Array, from: number, to: number): void {
    if (this.#rows.count < TOUCHED_MIN) return
    const [table, rows] = [this.#table, this.#rows]
    let sum = 0
    for (let i = from; i < to; i++) {
      sum ^= table.touch((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0)
    }
    for (let i = from; i < to; i++) {
      const low = (hashes[2 * i] as number) | 0
      const position = table.candidate(low, (hashes[2 * i + 1] as number) | 0)
      if (position >= 0) sum ^= rows.ownerOf(position)
    }
    this.touched = sum
  }

  /** As `lookup`, when the block before lies at a position (-1: none). */
  lookupAfter(position: number, low: number, high: number): number {
    if (position >= 0 && this.#rows.isNext(position, low, high)) return position + 1
    return this.lookup(low, high)
  }

  has(position: number, holder: number): boolean {
    const number = this.#owners.numberOf(holder)
    if (number === 0) return false
    const owner = this.#rows.ownerOf(position)
    return owner > 0 ? owner === number : this.#lists.has(~owner, number)
  }

  /** The holders of a block. */
  holdersOf(position: number): number[] {
    const owner = this.#rows.ownerOf(position)
    const numbers =
      owner > 0
        ? [owner]
        : Array.from({ length: this.#lists.lengthOf(~owner) }, (_, i) =>
            this.#lists.ownerAt(~owner, i),
          )
    return numbers.map((number) => this.#owners.holderOf(number)).filter((holder) => holder >= 0)
  }

  /** A block that is nowhere yet (signed halves). */
  add(low: number, high: number, holder: number): number {
    const number = this.#owners.enter(holder)
    const position = this.#rows.add(low, high, number, this.tick)
    this.#table.add(low, high, position)
    this.#owners.gained(number)
    this.#filter.add(low, high)
    return position
  }

  /** The holder has the block, too; returns how many owners that makes. */
  hold(position: number, holder: number): number {
    const number = this.#owners.enter(holder)
    const owner = this.#rows.ownerOf(position)
    if (owner === number) return 1
    if (owner > 0) {
      if (this.#owners.holderOf(owner) < 0) {
        this.#owners.lost(owner)
        this.#rows.setOwner(position, number)
        this.#owners.gained(number)
        return 1
      }
      this.#rows.setOwner(position, ~this.#lists.create(owner, number))
    } else {
      if (this.#lists.has(~owner, number)) return this.#lists.lengthOf(~owner)
      this.#rows.setOwner(position, ~this.#lists.add(~owner, number))
    }
    this.#owners.gained(number)
    return this.#lists.lengthOf(~this.#rows.ownerOf(position))
  }

  /** The holder loses a block (signed halves); false when it has not had it. Positions may change. */
  remove(holder: number, low: number, high: number): boolean {
    const number = this.#owners.numberOf(holder)
    if (number === 0) return false
    const position = this.lookup(low, high)
    if (position < 0) return false
    const owner = this.#rows.ownerOf(position)
    if (owner > 0 ? owner !== number : !this.#lists.has(~owner, number)) return false
    this.#release(position, number)
    this.#tidy(this.#rows.chunkOf(position))
    return true
  }

  /** No holder has the block any more. Positions may change. */
  drop(position: number): void {
    this.#dropRow(position)
    this.#tidy(this.#rows.chunkOf(position))
  }

  removeHolder(holder: number): void {
    this.#owners.leave(holder)
    if (this.#rows.count === 0) return
    if (this.#owners.live === 0) {
      while (this.evictOldest());
      return
    }
    for (let i = 0; i < SWEEP_CHUNKS; i++) this.sweep()
  }

  /** One step of what takes a pass over all blocks. Positions may change. */
  tend(): void {
    this.sweep()
    this.#filter.tend(this.#rows)
  }

  /** Sweeps one chunk, if there is enough to be swept up. Positions may change. */
  sweep(): void {
    const { live, dead } = this.#owners
    if (DEAD_SHARE * dead <= live) return
    this.#sweepAt = this.#sweepAt + 1 < this.#rows.top ? this.#sweepAt + 1 : 0
    const chunk = this.#sweepAt
    if (!this.#rows.isLive(chunk)) return
    const first = this.#rows.firstOf(chunk)
    for (let position = first; position < first + CHUNK_ROWS; position++) this.#sweepRow(position)
    this.#tidy(chunk)
  }

  /** Gives up the blocks of the oldest chunk; false when there is none. */
  evictOldest(): boolean {
    const chunk = this.#rows.oldest
    if (chunk < 0) return false
    const first = this.#rows.firstOf(chunk)
    for (let position = first; position < first + CHUNK_ROWS; position++) {
      if (this.#rows.ownerOf(position) !== 0) this.#dropRow(position)
    }
    this.#rows.release(chunk)
    if (this.#rows.count === 0) this.#reset()
    return true
  }

  /** A block that is used is as one that has just come. Its position changes. */
  renew(position: number): void {
    const chunk = this.#rows.chunkOf(position)
    const age = (this.tick - this.#rows.begunOf(chunk)) | 0
    if (2 * age < ((this.tick - this.oldestTick) | 0)) return
    this.#relocate(position)
  }

  /** What `RunIndex.find` does with block `i` of a prompt, which lies here; returns how many holders are found. */
  match(position: number, i: number, matches: PrefixMatches, found: number): number {
    const { device, holders } = matches
    const owner = this.#rows.ownerOf(position)
    const count = owner > 0 ? 1 : this.#lists.lengthOf(~owner)
    this.isHeld = false
    this.ownerCount = count
    for (let k = 0; k < count; k++) {
      const holder = this.#owners.holderOf(owner > 0 ? owner : this.#lists.ownerAt(~owner, k))
      if (holder < 0 || (i > 0 && device[holder] !== i)) continue
      if (i === 0) holders[found++] = holder
      device[holder] = i + 1
      this.isHeld = true
    }
    return found
  }

  /** Whether a block lies at a position. */
  holds(position: number): boolean {
    return this.#rows.isLive(this.#rows.chunkOf(position)) && this.#rows.ownerOf(position) !== 0
  }

  /** All blocks, for whoever checks them. */
  *each(): Generator<{ low: number; high: number; position: number; holders: number }> {
    for (let position = 0; position < this.#rows.top * CHUNK_ROWS; position++) {
      if (!this.holds(position)) continue
      const [low, high] = [this.#rows.lowOf(position), this.#rows.highOf(position)]
      yield { low, high, position, holders: this.holdersOf(position).length }
    }
  }

  #release(position: number, number: number): void {
    const owner = this.#rows.ownerOf(position)
    if (owner > 0) {
      this.#dropRow(position)
      return
    }
    const list = ~owner
    this.#owners.lost(number)
    if (this.#lists.remove(list, number) > 1) return
    this.#rows.setOwner(position, this.#lists.ownerAt(list, 0))
    this.#lists.release(list)
  }

  #dropRow(position: number): void {
    const rows = this.#rows
    const owner = rows.ownerOf(position)
    if (owner > 0) this.#owners.lost(owner)
    else {
      for (let k = 0; k < this.#lists.lengthOf(~owner); k++) {
        this.#owners.lost(this.#lists.ownerAt(~owner, k))
      }
      this.#lists.release(~owner)
    }
    this.#table.delete(rows.lowOf(position), rows.highOf(position), position)
    rows.clear(position)
    this.#watcher.droppedLoose(position)
  }

  #sweepRow(position: number): void {
    for (;;) {
      const owner = this.#rows.ownerOf(position)
      if (owner === 0) return
      const gone = owner > 0 ? this.#goneOf(owner) : this.#goneIn(~owner)
      if (gone === 0) return
      this.#release(position, gone)
    }
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

  #relocate(position: number): void {
    const rows = this.#rows
    const [low, high] = [rows.lowOf(position), rows.highOf(position)]
    const target = rows.add(low, high, rows.ownerOf(position), this.tick)
    this.#table.move(low, high, position, target)
    rows.clear(position)
    // It may have left a chunk that has not been shown yet for one that has.
    this.#filter.moved(low, high)
    this.#watcher.movedLoose(position, target)
  }

  /** Gives memory back if there is enough of it in a chunk. */
  #tidy(chunk: number): void {
    if (this.#rows.count === 0) {
      this.#reset()
      return
    }
    if (!this.#rows.isSparse(chunk)) return
    const first = this.#rows.firstOf(chunk)
    for (let position = first; position < first + CHUNK_ROWS; position++) {
      if (this.#rows.ownerOf(position) !== 0) this.#relocate(position)
    }
    this.#rows.release(chunk)
  }

  #reset(): void {
    this.#rows = new LooseRows()
    this.#table = new LooseTable(this.#rows)
    this.#lists = new OwnerLists()
    this.#owners = new Tenancies()
    this.#filter = new LooseFilter()
  }
}
