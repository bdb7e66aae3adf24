/**
 * Where runs branch off others, and which runs have lost the block before them.
 *
 * A store has to look out for runs that begin in its middle only while there are such detached runs: engines that
 * evict chains from their ends never make one. Owns the `PARENT` field of runs and the `BRANCHED` marks of the arena.
 *
 * A place is where a block lies: its position in the arena, or, when it is loose, `placeOfLoose` of its position there.
 */
import { BRANCHED, MARK_STRIDE } from './block-arena.ts'
import type { BlockArena } from './block-arena.ts'
import { bitsBetween } from './block-set.ts'
import { PARENT, RUN_STRIDE } from './run-store.ts'
import type { RunStore } from './run-store.ts'

const DETACHED = -1
/** No block. */
export const NOWHERE = -1

/** The place of a loose block; the same function finds its position again. */
export const placeOfLoose = (position: number): number => -2 - position

export class RunBranches {
  readonly #arena: BlockArena
  readonly #runs: RunStore
  /** Runs that begin after a position, where there are some. */
  readonly #children = new Map<number, number>()
  /** Runs that begin after a loose block, by its position. */
  readonly #afterLoose = new Map<number, number[]>()
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

  /** The block before the run is at a place. */
  attach(run: number, place: number): void {
    this.leave(run)
    if (place < 0) {
      this.#runs.records[run * RUN_STRIDE + PARENT] = place
      const position = placeOfLoose(place)
      const runs = this.#afterLoose.get(position)
      if (runs === undefined) this.#afterLoose.set(position, [run])
      else runs.push(run)
      return
    }
    const position = place
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
      this.#leaveLoose(run, placeOfLoose(parent))
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

  #leaveLoose(run: number, position: number): void {
    const rest = (this.#afterLoose.get(position) ?? []).filter((other) => other !== run)
    if (rest.length === 0) this.#afterLoose.delete(position)
    else this.#afterLoose.set(position, rest)
  }

  /** A loose block lies at another place from now on. */
  movedLoose(from: number, place: number): void {
    if (this.#afterLoose.size === 0) return
    for (const run of this.#afterLoose.get(from) ?? []) this.attach(run, place)
  }

  droppedLoose(position: number): void {
    if (this.#afterLoose.size === 0) return
    for (const run of this.#afterLoose.get(position) ?? []) this.detach(run)
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
