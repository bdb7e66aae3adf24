/**
 * Where runs branch off others, and which runs have lost the block before them.
 *
 * A store has to look out for runs that begin in its middle only while there are such detached runs: engines that
 * evict chains from their ends never make one. Owns the `PARENT` field of runs and the `BRANCHED` marks of the arena.
 */
import { BRANCHED, MARK_STRIDE } from './block-arena.ts'
import type { BlockArena } from './block-arena.ts'
import { bitsBetween } from './block-set.ts'
import { PARENT, RUN_STRIDE } from './run-store.ts'
import type { RunStore } from './run-store.ts'

const DETACHED = -1

export class RunBranches {
  readonly #arena: BlockArena
  readonly #runs: RunStore
  /** Runs that begin after a position, where there are some. */
  readonly #children = new Map<number, number>()
  /** Runs whose predecessor is not in the index, although their chain does not begin with them. */
  detached = 0

  constructor(arena: BlockArena, runs: RunStore) {
    this.#arena = arena
    this.#runs = runs
  }

  isDetached(run: number): boolean {
    return this.#runs.records[run * RUN_STRIDE + PARENT] === DETACHED
  }

  /** Whether a run may begin with a block that follows the one at a position (-1: that begins a chain). */
  mayFollow(position: number): boolean {
    return position < 0 || this.detached > 0 || this.#arena.isMarked(position, BRANCHED)
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
    const position = parent - 1
    const left = (this.#children.get(position) ?? 0) - 1
    if (left > 0) {
      this.#children.set(position, left)
      return
    }
    this.#children.delete(position)
    this.#arena.unmark(position, BRANCHED)
  }

  /** The blocks at [from, to) go: detaches the runs that begin after one of them. Rare, so it may look at all runs. */
  drop(from: number, to: number): void {
    if (!this.#hasBranch(from, to)) return
    for (let run = 0; run < this.#runs.top; run++) {
      if (this.#runs.isFree(run)) continue
      const parent = this.#runs.records[run * RUN_STRIDE + PARENT] as number
      if (parent > from && parent <= to) this.detach(run)
    }
  }

  #hasBranch(from: number, to: number): boolean {
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
