/**
 * Makes deferred removals: in passes over the runs of one holder after the other, a part of a pass per event.
 *
 * A pass first takes the holder's removals into a set, then reads its runs (`RunSweep`). It usually removes three quarters
 * of the blocks. Between its parts other events are applied. The removals stay in the holder's list until the pass has ended, so that
 * an index asked meanwhile says the same before and after each of them is made. Blocks that are stored again are taken
 * from the list and from the set. A pass moves blocks, so it never continues while an event's blocks are looked up.
 */
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import type { Deferred, DeferredRemovals } from './deferred-removals.ts'
import type { RunHoldings } from './run-holdings.ts'
import type { RunSweep } from './run-sweep.ts'
import { WantedHashes } from '../words/wanted-hashes.ts'

/** After so many removals that had to be searched for, the next ones are not looked up. */
const MISSES_MIN = 8
/** Blocks in runs up to which statistics make all passes, in less than a millisecond. */
const SETTLED_MAX = 1 << 14
/** Blocks that a pass reads per event, some 50 us; with fewer, other events push its table out of the cache. Also per removal (it needs 8). */
const PART_DEFAULT = 4096
const PART_PER_REMOVAL = 16
/** Cost of a run, in blocks read. */
const RUN_COST = 4

export class RemovalPasses {
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  readonly #sweep: RunSweep
  readonly #deferred: DeferredRemovals
  readonly #part: number
  /** Holders that need a pass. That of the first one may be in progress. */
  readonly #due: number[] = []
  /** The pass in progress: its holder, or -1, and the removals that have not been made. */
  #holder = -1
  readonly #wanted = new WantedHashes()
  /** Its runs, once all removals are in the set, and the number of the next one. */
  #runs: Int32Array | null = null
  #next = 0
  /** `LooseBlocks.dropped` when it began. */
  #droppedBefore = 0

  constructor(
    holdings: RunHoldings,
    loose: LooseBlocks,
    sweep: RunSweep,
    deferred: DeferredRemovals,
    part = PART_DEFAULT,
  ) {
    this.#part = part
    this.#holdings = holdings
    this.#loose = loose
    this.#sweep = sweep
    this.#deferred = deferred
  }

  /** Number of removals that the pass in progress has made. */
  get made(): number {
    const own = this.#holder < 0 ? undefined : this.#deferred.of(this.#holder)
    return own === undefined ? 0 : own.taken - this.#wanted.left
  }

  /** Removes a block later (signed halves) that the holder may have in one of its runs. */
  defer(holder: number, low: number, high: number): void {
    // Every block of a dense run is anchored.
    if (this.#holdings.holders.sparseCount(holder) === 0) return
    const deferred = this.#deferred
    const own = deferred.of(holder) ?? deferred.begin(holder)
    own.misses += 1
    if (deferred.add(holder, own, low, high)) this.#enqueue(holder)
  }

  /**
   * Like `defer`, for a block that has not been looked up, if the last blocks of this holder had to be searched for: then
   * it evicts in no order, and a look-up would probably be in vain. False if not: nothing is deferred.
   */
  deferUnseen(holder: number, low: number, high: number): boolean {
    if (this.#deferred.count === 0) return false
    const own = this.#deferred.of(holder)
    if (own === undefined || own.misses < MISSES_MIN || own.isLoose) return false
    if (this.#deferred.add(holder, own, low, high)) this.#enqueue(holder)
    return true
  }

  /** Blocks of the holder have been removed that did not have to be searched for. */
  found(holder: number): void {
    const own = this.#deferred.of(holder)
    if (own === undefined) return
    own.misses = 0
    // It has fewer blocks now.
    if (own.count >= this.#deferred.limitOf(holder)) this.#enqueue(holder)
  }

  /** The holder has stored these blocks (again): they are not removed any more. */
  cancel(holder: number, hashes: Uint32Array): void {
    const hadSome = this.#deferred.cancel(holder, hashes)
    if (!hadSome || holder !== this.#holder) return
    for (let i = 0; i < hashes.length; i += 2) {
      this.#wanted.take((hashes[i] as number) | 0, (hashes[i + 1] as number) | 0)
    }
  }

  /** The holder has left. */
  removeHolder(holder: number): void {
    this.#deferred.delete(holder)
    if (holder === this.#holder) this.#holder = -1
  }

  /** Prepares for queries, and begins a pass if queries have checked enough blocks because of a holder's removals. */
  prepare(): void {
    if (this.#deferred.count === 0) return
    this.#deferred.prepare()
    const holder = this.#deferred.due()
    if (holder >= 0) this.#enqueue(holder)
  }

  /** Makes a part of the removals that are due; call before or after an event with so many removals. */
  advance(removals: number): void {
    if (this.#due.length > 0) this.#spend(this.#part + PART_PER_REMOVAL * removals)
  }

  /** Makes all deferred removals, if the holders' runs have few blocks in total. */
  settle(): void {
    const deferred = this.#deferred
    const blocksOf = (holder: number): number => this.#holdings.holders.entriesOf(holder)
    const blocks = deferred.holders.reduce((sum, holder) => sum + blocksOf(holder), 0)
    if (blocks > SETTLED_MAX) return
    // A pass in progress leaves the removals that came after its beginning.
    while (deferred.count > 0) {
      for (const holder of deferred.holders) this.#enqueue(holder)
      this.#spend(Infinity)
    }
  }

  #enqueue(holder: number): void {
    const own = this.#deferred.of(holder)
    if (own === undefined || own.isDue) return
    own.isDue = true
    this.#due.push(holder)
  }

  #spend(cost: number): void {
    while (cost > 0 && this.#due.length > 0) cost -= this.#step(this.#due[0] as number)
    // Before anything else is looked up.
    this.#sweep.flush()
  }

  /** Does a small part of the holder's pass; returns its cost. */
  #step(holder: number): number {
    const own = this.#deferred.of(holder)
    if (own === undefined) {
      this.#due.shift()
      return 1
    }
    if (holder !== this.#holder) this.#begin(holder, own)
    if (this.#runs === null) {
      const count = Math.min(this.#part, own.count - own.taken, this.#wanted.space)
      this.#wanted.addEach(own.words, own.taken, own.taken + count)
      own.taken += count
      if (count === 0) this.#beginRuns(holder)
      return count
    }
    if (this.#next < this.#runs.length) return this.#sweepSome(holder, this.#runs)
    this.#end(holder)
    return 1
  }

  #begin(holder: number, own: Deferred): void {
    this.#holder = holder
    this.#runs = null
    this.#wanted.begin(own.count)
    own.taken = 0
  }

  #beginRuns(holder: number): Int32Array {
    const { list, first, count } = this.#holdings.holders.of(holder)
    // A copy, because the list changes with each run that goes or comes.
    const runs = list.slice(first, first + count)
    this.#runs = runs
    this.#next = 0
    this.#droppedBefore = this.#loose.dropped
    return runs
  }

  /** Returns the cost. */
  #sweepSome(holder: number, runs: Int32Array): number {
    const from = this.#next
    this.#next = this.#sweep.sweep(holder, runs, from, this.#part, this.#wanted)
    return this.#sweep.read + RUN_COST * (this.#next - from)
  }

  #end(holder: number): void {
    this.#sweep.flush()
    if (this.#wanted.left > 0) this.#removeLoose(holder)
    // Blocks that were loose may be in runs that have been made of them meanwhile.
    if (this.#wanted.left > 0 && this.#loose.dropped !== this.#droppedBefore) {
      const runs = this.#beginRuns(holder)
      while (this.#next < runs.length) this.#sweepSome(holder, runs)
      this.#sweep.flush()
    }
    this.#due.shift()
    this.#holder = -1
    this.#runs = null
    this.#deferred.done(holder, this.#loose.entriesOf(holder))
  }

  /** Removes the wanted blocks that have become loose. */
  #removeLoose(holder: number): void {
    const hashes = this.#wanted.rest()
    const count = hashes.length >> 1
    // A block that it does not have ends a removal, and is skipped.
    for (let i = 0; i < count; i++) i = this.#loose.remove(holder, hashes, i)
  }
}
