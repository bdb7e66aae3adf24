/**
 * Who holds which stretch of which run: gaining one, losing one, and dropping blocks that nobody holds.
 *
 * Owns: the intervals, their number by holder, and the count of (holder, block) entries.
 * Invariant: the intervals of one holder in one run neither overlap nor touch; a run's first and last block have a
 * holder. Blocks in the middle of a run that nobody holds stay until an end comes to them.
 */
import { HolderRuns } from './holder-runs.ts'
import type { RunBlocks } from './run-blocks.ts'
import { COUNT, END, INTERVAL, RUN_STRIDE, START } from './run-store.ts'

/** Intervals that are looked through to learn whether another one ends where an anchor is dropped. */
const SHARED_END_MAX = 8

export class RunHoldings {
  readonly holders: HolderRuns
  readonly #blocks: RunBlocks
  entries = 0

  constructor(blocks: RunBlocks) {
    this.#blocks = blocks
    this.holders = new HolderRuns(blocks.runs)
  }

  /** The holder has [from, to) of a run as well. */
  cover(run: number, holder: number, from: number, to: number): void {
    const { runs } = this.#blocks
    const list = runs.intervals(run)
    let k = runs.firstInterval(run)
    const last = k + INTERVAL * (runs.records[run * RUN_STRIDE + COUNT] as number)
    for (; k < last; k += INTERVAL) {
      if (list[k] === holder && (list[k + 1] as number) <= to && (list[k + 2] as number) >= from) {
        break
      }
    }
    if (k === last) {
      runs.add(run, holder, from, to)
      this.entries += to - from
      this.holders.entered(holder, run, this.#blocks.isSparse(run))
      return
    }
    const oldFrom = list[k + 1] as number
    const oldTo = list[k + 2] as number
    if (oldFrom <= from && oldTo >= to) return
    list[k + 1] = Math.min(oldFrom, from)
    list[k + 2] = Math.max(oldTo, to)
    this.entries += (list[k + 2] as number) - (list[k + 1] as number) - (oldTo - oldFrom)
    this.#join(run, k, last)
  }

  /** An interval has grown: takes in those of the same holder, behind it in the list, that it now touches. */
  #join(run: number, grown: number, last: number): void {
    const { runs } = this.#blocks
    const list = runs.intervals(run)
    const holder = list[grown] as number
    for (let k = grown + INTERVAL; k < last;) {
      const from = list[grown + 1] as number
      const to = list[grown + 2] as number
      const otherFrom = list[k + 1] as number
      const otherTo = list[k + 2] as number
      if (list[k] !== holder || otherFrom > to || otherTo < from) {
        k += INTERVAL
        continue
      }
      const joinedFrom = Math.min(from, otherFrom)
      const joinedTo = Math.max(to, otherTo)
      this.entries += joinedTo - joinedFrom - (to - from) - (otherTo - otherFrom)
      list[grown + 1] = joinedFrom
      list[grown + 2] = joinedTo
      last -= INTERVAL
      list.copyWithin(k, last, last + INTERVAL)
      runs.dropLast(run)
      this.holders.left(holder, this.#blocks.isSparse(run))
    }
  }

  /** The holder loses [from, to) of the interval at an index of the run's list. */
  cut(run: number, holder: number, interval: number, from: number, to: number): void {
    const { runs } = this.#blocks
    const list = runs.intervals(run)
    const oldFrom = list[interval + 1] as number
    const oldTo = list[interval + 2] as number
    this.entries -= to - from
    if (from === oldFrom && to === oldTo) {
      runs.remove(run, interval)
      this.holders.left(holder, this.#blocks.isSparse(run))
    } else if (from === oldFrom) list[interval + 1] = to
    else {
      list[interval + 2] = from
      if (to < oldTo) {
        runs.add(run, holder, to, oldTo)
        this.holders.entered(holder, run, this.#blocks.isSparse(run))
      }
    }
    const record = run * RUN_STRIDE
    if (runs.records[record + COUNT] === 0) this.#blocks.free(run)
    else {
      if (to === runs.records[record + END]) this.#blocks.trimTail(run, runs.highest(run))
      if (from === runs.records[record + START]) this.#blocks.trimHead(run, runs.lowest(run))
    }
  }

  /** The holder loses everything. */
  removeHolder(holder: number): void {
    const { runs } = this.#blocks
    const { list, count } = this.holders.of(holder)
    for (let k = 0; k < count; k++) {
      const run = list[k] as number
      for (;;) {
        const interval = runs.isFree(run) ? -1 : runs.anyInterval(run, holder)
        if (interval < 0) break
        const intervals = runs.intervals(run)
        const from = intervals[interval + 1] as number
        this.cut(run, holder, interval, from, intervals[interval + 2] as number)
      }
    }
    this.holders.forget(holder)
  }

  /** Anchors every block of a run; returns how many that were. */
  densify(run: number): number {
    const { runs } = this.#blocks
    if (!this.#blocks.isSparse(run)) return 0
    const list = runs.intervals(run)
    let k = runs.firstInterval(run)
    const last = k + INTERVAL * (runs.records[run * RUN_STRIDE + COUNT] as number)
    for (; k < last; k += INTERVAL) this.holders.densified(list[k] as number)
    return this.#blocks.densify(run)
  }

  /** Forgets the anchor of what was an interval's last block, when no other interval ends there. */
  dropEnd(run: number, end: number, position: number): void {
    const { runs, anchors } = this.#blocks
    if (!this.#blocks.isSparse(run)) return
    if ((runs.records[run * RUN_STRIDE + START] as number) === end - 1) return
    const count = runs.records[run * RUN_STRIDE + COUNT] as number
    if (count > SHARED_END_MAX) return
    const list = runs.intervals(run)
    let k = runs.firstInterval(run)
    for (const last = k + INTERVAL * count; k < last; k += INTERVAL) if (list[k + 2] === end) return
    anchors.drop(position)
  }
}
