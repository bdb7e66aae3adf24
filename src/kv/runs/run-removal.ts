/**
 * The effect of `removed` on the runs of one storage tier.
 *
 * Engines evict chains from their ends, so the next hash is usually the neighbour of the previous block: such a
 * stretch takes one lookup and one change of a holding. From the first hash for which this is not true, the event is
 * treated as a set: if one of its hashes is anchored, as ends of holdings are, its neighbours are removed with it if
 * they are in the set. Only the rest has to be searched for, and is deferred (`RemovalPasses`).
 */
import { PAGE_BITS } from '../arena/block-arena.ts'
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import type { RemovalPasses } from './removal-passes.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'
import { AHEAD_MAX } from '../loose/loose-table.ts'
import type { RunLookAhead } from './run-look-ahead.ts'
import type { RunSearch } from './run-search.ts'
import { RUN_STRIDE, START } from './run-store.ts'
import { WantedHashes } from '../words/wanted-hashes.ts'

export class RunRemoval {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  readonly #search: RunSearch
  readonly #wanted = new WantedHashes()
  readonly #passes: RemovalPasses
  readonly #lookAhead: RunLookAhead

  constructor(
    blocks: RunBlocks,
    holdings: RunHoldings,
    loose: LooseBlocks,
    search: RunSearch,
    passes: RemovalPasses,
    lookAhead: RunLookAhead,
  ) {
    this.#passes = passes
    this.#lookAhead = lookAhead
    this.#blocks = blocks
    this.#holdings = holdings
    this.#loose = loose
    this.#search = search
  }

  /** Hashes that are not held are skipped. */
  remove(holder: number, hashes: Uint32Array): void {
    const count = hashes.length >> 1
    const { arena, reader, runs } = this.#blocks
    for (let i = 0; i < count;) {
      if (this.#loose.count > 0) {
        const from = i
        i = this.#loose.remove(holder, hashes, i)
        if (i > from) continue
      }
      const position = this.#locate(hashes, i, holder)
      const run = position < 0 ? -1 : arena.runOf(position)
      const k = run < 0 ? -1 : runs.holdingOf(run, holder)
      if (k < 0) {
        this.#removeSet(holder, hashes, i)
        return
      }
      const at = arena.offsetOf(position)
      const held = runs.holdings(run)[k + 1] as number
      let from = at
      let to = this.#holdings.endOf(held, at)
      if (to === at) {
        this.#removeSet(holder, hashes, i)
        return
      }
      const page = position >> PAGE_BITS
      const next = i + 1
      const start = runs.records[run * RUN_STRIDE + START] as number
      const back = reader.matchBackward(page, at, Math.min(count - next, at - start), hashes, next)
      if (back > 0) {
        from -= back
        to = at + 1
      } else {
        const limit = Math.min(count - next, to - at - 1)
        to = at + 1 + reader.matchForward(page, at + 1, limit, hashes, next)
      }
      if (to - from === 1 && next < count) {
        this.#removeSet(holder, hashes, i)
        return
      }
      i += to - from
      this.#cut(holder, run, k, position, from, to)
    }
  }

  /** Like `remove`, for one block (signed halves). */
  removeOne(holder: number, low: number, high: number): void {
    if (this.#loose.removeOne(holder, low, high) || this.#cutOne(holder, low, high)) {
      this.#passes.found(holder)
    } else this.#passes.defer(holder, low, high)
  }

  /** Removes a block that is in a run and anchored; false if it is not. */
  #cutOne(holder: number, low: number, high: number): boolean {
    const { arena, runs } = this.#blocks
    const position = this.#search.lookup(low, high, holder)
    const run = position < 0 ? -1 : arena.runOf(position)
    const k = run < 0 ? -1 : runs.holdingOf(run, holder)
    if (k < 0) return false
    const at = arena.offsetOf(position)
    if (this.#holdings.cutInner(run, k, at)) return true
    if (!this.#holdings.hasAt(runs.holdings(run)[k + 1] as number, at)) return false
    this.#cut(holder, run, k, position, at, at + 1)
    return true
  }

  #locate(hashes: Uint32Array, i: number, holder: number): number {
    const low = (hashes[2 * i] as number) | 0
    return this.#search.lookup(low, (hashes[2 * i + 1] as number) | 0, holder)
  }

  /** Like `remove`, for the hashes from `i` on, in any order. */
  #removeSet(holder: number, hashes: Uint32Array, i: number): void {
    const wanted = this.#wanted
    const count = hashes.length >> 1
    for (; i < count; i++) {
      const low = (hashes[2 * i] as number) | 0
      if (!this.#passes.deferUnseen(holder, low, (hashes[2 * i + 1] as number) | 0)) break
    }
    if (i === count) return
    wanted.reset(hashes, i, count)
    let ahead = count
    // Starts with the last one: in ascending order it is the end of a holding.
    for (let k = ahead - 1; k >= i && wanted.left > 0; k--) {
      if (k < ahead) {
        const last = ahead
        ahead = Math.max(i, last - AHEAD_MAX)
        this.#lookAhead.touch(hashes, ahead, last)
      }
      const low = (hashes[2 * k] as number) | 0
      const high = (hashes[2 * k + 1] as number) | 0
      if (!wanted.has(low, high)) continue
      if (this.#loose.removeOne(holder, low, high)) {
        wanted.take(low, high)
        continue
      }
      const position = this.#locate(hashes, k, holder)
      if (position >= 0) this.#takeAround(holder, position)
    }
    for (let k = i; k < count && wanted.left > 0; k++) {
      const low = (hashes[2 * k] as number) | 0
      const high = (hashes[2 * k + 1] as number) | 0
      if (wanted.take(low, high)) this.#passes.defer(holder, low, high)
    }
  }

  /** Removes the block at a position and its neighbours that are wanted. */
  #takeAround(holder: number, position: number): void {
    const { arena, reader, runs } = this.#blocks
    const run = arena.runOf(position)
    const k = runs.holdingOf(run, holder)
    if (k < 0) return
    const at = arena.offsetOf(position)
    const held = runs.holdings(run)[k + 1] as number
    if (!this.#holdings.hasAt(held, at)) return
    const wanted = this.#wanted
    const { words } = arena
    if (!wanted.take(words[2 * position] as number, words[2 * position + 1] as number)) return
    // Every block of a dense run is anchored, so its neighbours can be found without it.
    if (!this.#blocks.isSparse(run) && this.#holdings.cutInner(run, k, at)) return
    const end = this.#holdings.endOf(held, at)
    const page = position >> PAGE_BITS
    const start = runs.records[run * RUN_STRIDE + START] as number
    const from = at - reader.takeBackward(page, at, at - start, wanted)
    const to = at + 1 + reader.takeForward(page, at + 1, end - at - 1, wanted)
    this.#cut(holder, run, k, position, from, to)
  }

  /** Removes the part of [from, to) that the holder has, including the block at `position`. */
  #cut(holder: number, run: number, k: number, position: number, from: number, to: number): void {
    const { reader, runs } = this.#blocks
    const held = runs.holdings(run)[k + 1] as number
    const isHead = from === (runs.records[run * RUN_STRIDE + START] as number)
    if (to === held) {
      if (!isHead) {
        const end = reader.positionNear(position >> PAGE_BITS, from - 1)
        this.#search.leaveEnd(holder, end, position)
      }
    } else if (to - from > 1 || isHead || to === this.#holdings.highOf(held)) {
      this.#anchorEnds(run, held, position >> PAGE_BITS, from, to)
    }
    this.#holdings.cut(run, holder, k, from, to)
    this.#passes.found(holder)
  }

  /** A holding will lose [from, to) in its middle or front: anchors its new ends, which may be named next. */
  #anchorEnds(run: number, held: number, page: number, from: number, to: number): void {
    if (!this.#blocks.isSparse(run)) return
    const { anchors, reader, runs } = this.#blocks
    const start = runs.records[run * RUN_STRIDE + START] as number
    if (from > start && this.#holdings.endOf(held, from - 1) >= from) {
      anchors.add(reader.positionNear(page, from - 1))
    }
    if (this.#holdings.endOf(held, to) > to) anchors.add(reader.positionNear(page, to))
  }
}
