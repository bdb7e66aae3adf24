/**
 * Which holder has which blocks of which run: adding and removing them, and removing blocks without a holder.
 *
 * Owns the holdings, the runs of each holder, and the count of (holder, block) entries. A holding usually covers the
 * first blocks of the run, so that only its end is stored; if blocks were evicted in another order than from the end,
 * it is a set (`BlockSets`). Invariant: the last block of a run has a holder, and some block of its first page. Others may
 * stay without one.
 */
import { PAGE_BITS } from '../arena/block-arena.ts'
import { BlockSets } from './block-sets.ts'
import { HolderRuns } from './holder-runs.ts'
import type { RunBlocks } from './run-blocks.ts'
import { COUNT, END, HOLDING, RUN_STRIDE, START } from './run-store.ts'

/** Maximum number of holdings that are checked for the same end before an anchor is removed. */
const SHARED_END_MAX = 8

export class RunHoldings {
  readonly holders: HolderRuns
  readonly #blocks: RunBlocks
  readonly #sets = new BlockSets()
  #entries = 0

  constructor(blocks: RunBlocks) {
    this.#blocks = blocks
    this.holders = new HolderRuns(blocks.runs)
  }

  /** Number of (holder, block) pairs. */
  get entries(): number {
    return this.#entries
  }

  get bytes(): number {
    return this.holders.bytes + this.#sets.bytes
  }

  /**
   * The first offset at or after `at` that a holding lacks; `held` is its second word, and `at` is not before the
   * run's start.
   */
  endOf(held: number, at: number): number {
    if (held < 0) return this.#sets.endOf(~held, at)
    return held > at ? held : at
  }

  /** Whether a holding has the block at an offset, which is not before the run's start; cheaper than `endOf`. */
  hasAt(held: number, at: number): boolean {
    return held < 0 ? this.#sets.has(~held, at) : held > at
  }

  /** One more than the last offset of a holding. */
  highOf(held: number): number {
    return held < 0 ? this.#sets.highOf(~held) : held
  }

  /** Number of blocks of a holding. */
  countOf(run: number, held: number): number {
    if (held < 0) return this.#sets.countOf(~held)
    return held - (this.#blocks.runs.records[run * RUN_STRIDE + START] as number)
  }

  /** A holder has gained blocks of a run that it has entered, or lost them. */
  count(holder: number, change: number): void {
    this.#entries += change
    this.holders.count(holder, change)
  }

  /** Writes the offsets of a holding's blocks, ascending, to an array from an index on; returns the index after them. */
  offsetsOf(run: number, held: number, offsets: Int32Array, index: number): number {
    if (held < 0) return this.#sets.offsetsOf(~held, offsets, index)
    let at = this.#blocks.runs.records[run * RUN_STRIDE + START] as number
    while (at < held) offsets[index++] = at++
    return index
  }

  /** Whether the holder has the block at an offset of a run. */
  has(run: number, holder: number, at: number): boolean {
    const { runs } = this.#blocks
    const k = runs.holdingOf(run, holder)
    return k >= 0 && this.hasAt(runs.holdings(run)[k + 1] as number, at)
  }

  /** Adds [from, to) of a run to the holder. */
  cover(run: number, holder: number, from: number, to: number): void {
    const { runs } = this.#blocks
    const start = runs.records[run * RUN_STRIDE + START] as number
    const k = runs.holdingOf(run, holder)
    if (k < 0) {
      runs.add(run, holder, from === start ? to : ~this.#sets.create(start, from, to))
      this.holders.entered(holder, run, this.#blocks.isSparse(run))
      this.count(holder, to - from)
      return
    }
    const list = runs.holdings(run)
    const held = list[k + 1] as number
    if (held >= from) {
      if (held >= to) return
      list[k + 1] = to
      this.count(holder, to - held)
      return
    }
    const set = held < 0 ? ~held : this.#sets.create(start, start, held)
    const before = this.#sets.countOf(set)
    const grown = this.#sets.add(set, from, to)
    this.count(holder, this.#sets.countOf(grown) - before)
    list[k + 1] = this.#simplest(grown, start)
  }

  /**
   * Removes the part of [from, to) that the holder has; `k` is the index of its holding in the run's list. The holder
   * must have the first or last of them, and all of them if its holding is a head of the run.
   */
  cut(run: number, holder: number, k: number, from: number, to: number): void {
    const { runs } = this.#blocks
    const record = run * RUN_STRIDE
    const list = runs.holdings(run)
    const start = runs.records[record + START] as number
    const end = runs.records[record + END] as number
    const held = list[k + 1] as number
    let gone = to - from
    if (held === to && from > start) {
      list[k + 1] = from
      if (runs.records[record + COUNT] === 1) {
        this.count(holder, -gone)
        this.#blocks.trimTail(run, from)
        return
      }
    } else if (held === to) this.#leave(run, holder, k)
    else {
      const set = held < 0 ? ~held : this.#sets.create(start, start, held)
      gone = this.#sets.delete(set, from, to)
      list[k + 1] = this.#simplest(set, start)
      if (list[k + 1] === start) this.#leave(run, holder, k)
    }
    this.count(holder, -gone)
    this.#trim(run, from === start || this.#isPageLost(run, from), to === end)
  }

  /** Removes all but the blocks at the offsets number `from` .. `to`, ascending, of a holding that has these. */
  keepEach(
    run: number,
    holder: number,
    k: number,
    offsets: Int32Array,
    from: number,
    to: number,
  ): void {
    const { runs } = this.#blocks
    const list = runs.holdings(run)
    const start = runs.records[run * RUN_STRIDE + START] as number
    const held = list[k + 1] as number
    const before = this.countOf(run, held)
    const isTail = this.highOf(held) === runs.records[run * RUN_STRIDE + END]
    if (held < 0) this.#sets.release(~held)
    const count = to - from
    const end = count === 0 ? start : (offsets[to - 1] as number) + 1
    if (count === 0) this.#leave(run, holder, k)
    else if (end - start === count) list[k + 1] = end
    else list[k + 1] = ~this.#sets.createOf(start, offsets, from, to)
    this.count(holder, count - before)
    const isHead = count === 0 || offsets[from] !== start
    this.#trim(run, isHead && this.#isPageLost(run, start), isTail)
  }

  /**
   * Whether the first page of a run has no block with a holder any more, after the block at an offset has lost one. Until then
   * blocks without a holder may stay at its front: trimming gains nothing, and the run would be detached.
   */
  #isPageLost(run: number, at: number): boolean {
    const { runs } = this.#blocks
    const record = run * RUN_STRIDE
    const page = (runs.records[record + START] as number) >> PAGE_BITS
    const last = (runs.records[record + END] as number) - 1
    if (at >> PAGE_BITS !== page || last >> PAGE_BITS === page) return false
    if (runs.records[record + COUNT] === 0) return false
    return this.lowest(run) >> PAGE_BITS > page
  }

  /**
   * Removes a block of a holding that is a set, if it is neither its first nor its last one: no end changes. Returns
   * whether it was such a block.
   */
  cutInner(run: number, k: number, at: number): boolean {
    const list = this.#blocks.runs.holdings(run)
    const held = list[k + 1] as number
    if (held >= 0 || !this.#sets.deleteInner(~held, at)) return false
    this.count(list[k] as number, -1)
    return true
  }

  /** Removes the blocks from an offset on from all holders; some holder must have the first block. */
  cutTail(run: number, from: number): void {
    const { runs } = this.#blocks
    // From the end of the list, because a holding that is removed is replaced by the last one.
    for (let i = (runs.records[run * RUN_STRIDE + COUNT] as number) - 1; i >= 0; i--) {
      const k = runs.firstHolding(run) + HOLDING * i
      const list = runs.holdings(run)
      const high = this.highOf(list[k + 1] as number)
      if (high > from) this.cut(run, list[k] as number, k, from, high)
    }
  }

  /** The second word of a holding with the blocks of a set: an end offset if possible. */
  #simplest(set: number, start: number): number {
    const sets = this.#sets
    const count = sets.countOf(set)
    if (count > 0 && (!sets.isStretch(set) || sets.lowOf(set) !== start)) return ~set
    sets.release(set)
    return start + count
  }

  #leave(run: number, holder: number, k: number): void {
    this.#blocks.runs.remove(run, k)
    this.holders.left(holder, this.#blocks.isSparse(run))
  }

  /** Removes blocks without a holder at the ends of the run. */
  #trim(run: number, isHead: boolean, isTail: boolean): void {
    const { runs } = this.#blocks
    const record = run * RUN_STRIDE
    if (runs.records[record + COUNT] === 0) {
      this.#free(run)
      return
    }
    if (isTail) this.#blocks.trimTail(run, this.highest(run))
    if (!isHead) return
    const start = this.lowest(run)
    if (start === runs.records[record + START]) return
    this.#blocks.trimHead(run, start)
    const list = runs.holdings(run)
    let k = runs.firstHolding(run)
    const last = k + HOLDING * (runs.records[record + COUNT] as number)
    for (; k < last; k += HOLDING) list[k + 1] = this.#simplest(~(list[k + 1] as number), start)
  }

  /** The first offset that any holder has; the run has at least one holding. */
  lowest(run: number): number {
    const { runs } = this.#blocks
    const list = runs.holdings(run)
    let k = runs.firstHolding(run)
    const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
    let lowest = Infinity
    for (; k < last; k += HOLDING) {
      const held = list[k + 1] as number
      if (held >= 0) return runs.records[run * RUN_STRIDE + START] as number
      lowest = Math.min(lowest, this.#sets.lowOf(~held))
    }
    return lowest
  }

  /** One more than the last offset that any holder has. */
  highest(run: number): number {
    const { runs } = this.#blocks
    const list = runs.holdings(run)
    let k = runs.firstHolding(run)
    const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
    const end = runs.records[run * RUN_STRIDE + END] as number
    let highest = 0
    for (; k < last && highest < end; k += HOLDING) {
      highest = Math.max(highest, this.highOf(list[k + 1] as number))
    }
    return highest
  }

  /** Whether any holder has the block at an offset. */
  isHeld(run: number, at: number): boolean {
    const { runs } = this.#blocks
    const list = runs.holdings(run)
    let k = runs.firstHolding(run)
    const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
    while (k < last && !this.hasAt(list[k + 1] as number, at)) k += HOLDING
    return k < last
  }

  /** Whether all holders have the first blocks of the run, without gaps. */
  areHeads(run: number): boolean {
    const { runs } = this.#blocks
    const list = runs.holdings(run)
    let k = runs.firstHolding(run) + 1
    const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
    while (k < last && (list[k] as number) >= 0) k += HOLDING
    return k >= last
  }

  /** The first offset that no holder has; the end of the run if there is no such block in it. */
  firstHole(run: number): number {
    const { runs } = this.#blocks
    const list = runs.holdings(run)
    const first = runs.firstHolding(run)
    const last = first + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
    let at = runs.records[run * RUN_STRIDE + START] as number
    for (;;) {
      let to = at
      for (let k = first; k < last; k += HOLDING) {
        to = Math.max(to, this.endOf(list[k + 1] as number, at))
      }
      if (to === at) return at
      at = to
    }
  }

  /** Removes everything of a holder. */
  removeHolder(holder: number): void {
    const { runs } = this.#blocks
    const { list, first, count } = this.holders.of(holder)
    // Newest first, so that runs are removed before the runs that they branch off.
    for (let i = first + count - 1; i >= first; i--) {
      const run = list[i] as number
      const k = runs.holdingOf(run, holder)
      const held = runs.holdings(run)[k + 1] as number
      this.count(holder, -this.countOf(run, held))
      if (held < 0) this.#sets.release(~held)
      this.#leave(run, holder, k)
      this.#trim(run, true, true)
    }
  }

  /** Removes a run from all its holders. */
  dropRun(run: number): void {
    const { runs } = this.#blocks
    while ((runs.records[run * RUN_STRIDE + COUNT] as number) > 0) {
      // From the end of the list, so that no holding is moved.
      const last = (runs.records[run * RUN_STRIDE + COUNT] as number) - 1
      const k = runs.firstHolding(run) + HOLDING * last
      const list = runs.holdings(run)
      const held = list[k + 1] as number
      const holder = list[k] as number
      this.count(holder, -this.countOf(run, held))
      if (held < 0) this.#sets.release(~held)
      this.#leave(run, holder, k)
    }
    this.#free(run)
  }

  #free(run: number): void {
    this.#blocks.free(run)
    if (this.#blocks.runs.live === 0) this.holders.clear()
  }

  /** Makes a run dense (anchors every block); returns its number of blocks. */
  densify(run: number): number {
    const { runs } = this.#blocks
    if (!this.#blocks.isSparse(run)) return 0
    const list = runs.holdings(run)
    let k = runs.firstHolding(run)
    const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
    for (; k < last; k += HOLDING) this.holders.densified(list[k] as number)
    return this.#blocks.densify(run)
  }

  /** Removes the anchor of a holding's former last block, unless another holding ends there. */
  dropEnd(run: number, end: number, position: number): void {
    const { runs, anchors } = this.#blocks
    const { records } = runs
    const record = run * RUN_STRIDE
    if (records[record + START] === end - 1 || !this.#blocks.isSparse(run)) return
    const count = records[record + COUNT] as number
    if (count > SHARED_END_MAX) return
    if (count === 1) {
      anchors.drop(position)
      return
    }
    const list = runs.holdings(run)
    let k = runs.firstHolding(run)
    for (const last = k + HOLDING * count; k < last; k += HOLDING) {
      if (this.highOf(list[k + 1] as number) === end) return
    }
    anchors.drop(position)
  }
}
