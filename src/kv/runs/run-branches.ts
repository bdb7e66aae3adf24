/**
 * Where runs branch off other runs, and which runs have lost the block before them (detached runs).
 *
 * Only while there are detached runs does a store have to check for runs that begin in its middle; engines that evict
 * chains from their ends never create one. Owns the `PARENT` field of runs and the `BRANCHED` marks of the arena.
 *
 * A place is the location of a block: its position in the arena, or `LOOSE` together with its hash.
 */
import {
  BRANCHED,
  MARK_STRIDE,
  NEXT,
  PAGE_BITS,
  PAGE_BLOCKS,
  PAGE_STRIDE,
} from '../arena/block-arena.ts'
import type { BlockArena } from '../arena/block-arena.ts'
import { bitsBetween } from '../words/bit-count.ts'
import { END, FIRST_PAGE, PARENT, RUN_STRIDE, START } from './run-store.ts'
import type { RunStore } from './run-store.ts'
import { KeyedLists } from '../words/keyed-lists.ts'

const DETACHED = -1
/** No block: the start of a chain. */
export const NOWHERE = -1
/** A loose block; if it is a run's parent, its hash is stored here. */
export const LOOSE = -2

/** Positions are not negative. */
const looseKey = (low: number): number => -1 - (low >>> 0)

export class RunBranches {
  readonly #arena: BlockArena
  readonly #runs: RunStore
  /** Runs by the position after which they begin, or by the low half of a loose block's hash (`looseKey`). */
  readonly #siblings = new KeyedLists()
  /** By run that begins after a loose block: the halves of that block's hash. */
  readonly #looseHigh = new Map<number, number>()
  readonly #looseLow = new Map<number, number>()
  /** Number of runs whose predecessor is not in the index although they do not begin a chain. */
  detached = 0

  constructor(arena: BlockArena, runs: RunStore) {
    this.#arena = arena
    this.#runs = runs
  }

  isDetached(run: number): boolean {
    return this.#runs.records[run * RUN_STRIDE + PARENT] === DETACHED
  }

  /** Whether a run may begin after the block at a place (`NOWHERE`: at the start of a chain). */
  mayFollow(place: number): boolean {
    return place < 0 || this.detached > 0 || this.#arena.isMarked(place, BRANCHED)
  }

  /** Sets a loose block (signed halves) as the run's predecessor; the caller marks the block as followed. */
  attachLoose(run: number, low: number, high: number): void {
    this.leave(run)
    this.#runs.records[run * RUN_STRIDE + PARENT] = LOOSE
    this.#looseLow.set(run, low)
    this.#looseHigh.set(run, high)
    this.#siblings.add(looseKey(low), run)
  }

  /** Sets the block at a position as the run's predecessor. */
  attach(run: number, position: number): void {
    this.leave(run)
    this.#runs.records[run * RUN_STRIDE + PARENT] = position + 1
    this.#siblings.add(position, run)
    this.#arena.mark(position, BRANCHED)
  }

  /** The run's predecessor is not in the index (any more). */
  detach(run: number): void {
    this.leave(run)
    this.#runs.records[run * RUN_STRIDE + PARENT] = DETACHED
    this.detached += 1
  }

  /** Resets the run to "begins a chain"; call before the run is freed. */
  leave(run: number): void {
    const { records } = this.#runs
    const parent = records[run * RUN_STRIDE + PARENT] as number
    records[run * RUN_STRIDE + PARENT] = 0
    if (parent === 0) return
    if (parent === DETACHED) {
      this.detached -= 1
      return
    }
    if (parent < 0) {
      this.#leaveLoose(run)
      return
    }
    const position = parent - 1
    if (this.#siblings.remove(position, run)) this.#arena.unmark(position, BRANCHED)
  }

  #leaveLoose(run: number): void {
    this.#siblings.remove(looseKey(this.#looseLow.get(run) as number), run)
    this.#looseLow.delete(run)
    this.#looseHigh.delete(run)
  }

  /** The runs that begin after a loose block (signed halves). */
  after(low: number, high: number): number[] {
    const runs: number[] = []
    let run = this.#siblings.firstOf(looseKey(low))
    for (; run >= 0; run = this.#siblings.after(run)) {
      if (this.#looseHigh.get(run) === high) runs.push(run)
    }
    return runs
  }

  /** The block at a position has become loose (signed halves of its hash). */
  becameLoose(position: number, low: number, high: number): void {
    for (let run; (run = this.#siblings.firstOf(position)) >= 0;) this.attachLoose(run, low, high)
  }

  /** The block at a position has been moved to another one. */
  moved(from: number, to: number): void {
    if (!this.#arena.isMarked(from, BRANCHED)) return
    for (let run; (run = this.#siblings.firstOf(from)) >= 0;) this.attach(run, to)
  }

  /** A loose block has been moved into a run, to this position. */
  movedLoose(low: number, high: number, position: number): void {
    for (const run of this.after(low, high)) this.attach(run, position)
  }

  droppedLoose(low: number, high: number): void {
    for (const run of this.after(low, high)) this.detach(run)
  }

  droppedAllLoose(): void {
    for (const run of this.#looseLow.keys()) this.detach(run)
  }

  /** Whether a run begins after any block of this run. */
  isRunBranched(run: number): boolean {
    const { records } = this.#runs
    let page = records[run * RUN_STRIDE + FIRST_PAGE] as number
    if (this.#arena.isShared(page)) {
      const first = page << PAGE_BITS
      const from = first + (records[run * RUN_STRIDE + START] as number)
      return this.isBranched(from, first + (records[run * RUN_STRIDE + END] as number))
    }
    while (page >= 0) {
      const first = page << PAGE_BITS
      const isMarked = this.#arena.hasMarks(page)
      if (isMarked && this.isBranched(first, first + PAGE_BLOCKS)) return true
      page = this.#arena.pages[page * PAGE_STRIDE + NEXT] as number
    }
    return false
  }

  /** The blocks at positions [from, to) are removed: detaches the runs that begin after them. */
  drop(from: number, to: number): void {
    if (!this.isBranched(from, to)) return
    for (let position = from; position < to; position++) {
      for (let run; (run = this.#siblings.firstOf(position)) >= 0;) this.detach(run)
    }
  }

  /** Whether a run begins after any of the positions [from, to). */
  isBranched(from: number, to: number): boolean {
    const { marks } = this.#arena
    while (from < to) {
      const stop = Math.min(to, (from | 31) + 1)
      const branched = marks[MARK_STRIDE * (from >> 5) + BRANCHED] as number
      if ((branched & bitsBetween(from, stop)) !== 0) return true
      from = stop
    }
    return false
  }
}
