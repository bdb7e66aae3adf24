/**
 * Where runs branch off others, and which runs have lost the block before them.
 *
 * A store has to look out for runs that begin in its middle only while there are such detached runs: engines that
 * evict chains from their ends never make one. Owns the `PARENT` field of runs and the `BRANCHED` marks of the arena.
 *
 * A place is where a block lies: its position in the arena, or `LOOSE`, and then its hash says which one.
 */
import { BRANCHED, MARK_STRIDE, NEXT, PAGE_BITS, PAGE_BLOCKS, PAGE_STRIDE } from './block-arena.ts'
import type { BlockArena } from './block-arena.ts'
import { bitsBetween } from './block-set.ts'
import { FIRST_PAGE, PARENT, RUN_STRIDE } from './run-store.ts'
import type { RunStore } from './run-store.ts'

const DETACHED = -1
/** No block. */
export const NOWHERE = -1
/** A loose block; as a run's parent, the one whose hash is kept here. */
export const LOOSE = -2

export class RunBranches {
  readonly #arena: BlockArena
  readonly #runs: RunStore
  /** Runs that begin after a position, where there are some. */
  readonly #children = new Map<number, number>()
  /** Runs that begin after a loose block, by the low half of its hash, and the high half by run. */
  readonly #afterLoose = new Map<number, number[]>()
  readonly #looseHigh = new Map<number, number>()
  readonly #looseLow = new Map<number, number>()
  /** Runs whose predecessor is not in the index, although their chain does not begin with them. */
  detached = 0

  constructor(arena: BlockArena, runs: RunStore) {
    this.#arena = arena
    this.#runs = runs
  }

  isDetached(run: number): boolean {
    return this.#runs.records[run * RUN_STRIDE + PARENT] === DETACHED
  }

  /** Whether a run may begin with a block that follows the one at a place (`NOWHERE`: that begins a chain). */
  mayFollow(place: number): boolean {
    return place < 0 || this.detached > 0 || this.#arena.isMarked(place, BRANCHED)
  }

  /** The block before the run is a loose one (signed halves), which must be marked as followed. */
  attachLoose(run: number, low: number, high: number): void {
    this.leave(run)
    this.#runs.records[run * RUN_STRIDE + PARENT] = LOOSE
    this.#looseLow.set(run, low)
    this.#looseHigh.set(run, high)
    const runs = this.#afterLoose.get(low)
    if (runs === undefined) this.#afterLoose.set(low, [run])
    else runs.push(run)
  }

  /** The block before the run is at a position. */
  attach(run: number, position: number): void {
    this.leave(run)
    this.#runs.records[run * RUN_STRIDE + PARENT] = position + 1
    this.#children.set(position, (this.#children.get(position) ?? 0) + 1)
    this.#arena.mark(position, BRANCHED)
  }

  /** The block before the run is not in the index, or not any more. */
  detach(run: number): void {
    this.leave(run)
    this.#runs.records[run * RUN_STRIDE + PARENT] = DETACHED
    this.detached += 1
  }

  /** The run is as one that begins its chain; call before it is freed. */
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
    const left = (this.#children.get(position) ?? 0) - 1
    if (left > 0) {
      this.#children.set(position, left)
      return
    }
    this.#children.delete(position)
    this.#arena.unmark(position, BRANCHED)
  }

  #leaveLoose(run: number): void {
    const low = this.#looseLow.get(run) as number
    this.#looseLow.delete(run)
    this.#looseHigh.delete(run)
    const rest = (this.#afterLoose.get(low) ?? []).filter((other) => other !== run)
    if (rest.length === 0) this.#afterLoose.delete(low)
    else this.#afterLoose.set(low, rest)
  }

  /** The runs that begin after a loose block (signed halves). */
  after(low: number, high: number): number[] {
    const runs = this.#afterLoose.get(low) ?? []
    return runs.filter((run) => this.#looseHigh.get(run) === high)
  }

  /** A loose block lies at a position from now on. */
  movedLoose(low: number, high: number, position: number): void {
    for (const run of this.after(low, high)) this.attach(run, position)
  }

  droppedLoose(low: number, high: number): void {
    for (const run of this.after(low, high)) this.detach(run)
  }

  /** Whether a run begins after one of another run's blocks. */
  isRunBranched(run: number): boolean {
    for (let page = this.#runs.records[run * RUN_STRIDE + FIRST_PAGE] as number; page >= 0;) {
      const first = page << PAGE_BITS
      const isMarked = this.#arena.hasMarks(page)
      if (isMarked && this.isBranched(first, first + PAGE_BLOCKS)) return true
      page = this.#arena.pages[page * PAGE_STRIDE + NEXT] as number
    }
    return false
  }

  /** The blocks at [from, to) go: detaches the runs that begin after one of them. Rare, so it may look at all runs. */
  drop(from: number, to: number): void {
    if (!this.isBranched(from, to)) return
    for (let run = 0; run < this.#runs.top; run++) {
      if (this.#runs.isFree(run)) continue
      const parent = this.#runs.records[run * RUN_STRIDE + PARENT] as number
      if (parent > from && parent <= to) this.detach(run)
    }
  }

  /** Whether a run begins after one of the positions [from, to). */
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
