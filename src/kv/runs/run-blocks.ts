/**
 * Runs and their blocks: appending at the end, trimming at both ends.
 *
 * Keeps arena, anchors, run records and branches consistent. Knows nothing about holders; a run must have holdings
 * (`RunHoldings`) whenever a public call of the index returns.
 */
import { AnchorTable } from '../arena/anchor-table.ts'
import { ANCHORED, BlockArena, INDEX, NEXT, PAGE_BITS, PAGE_BLOCKS } from '../arena/block-arena.ts'
import { PAGE_MASK, PAGE_STRIDE, PREVIOUS } from '../arena/block-arena.ts'
import { sharesFor } from '../arena/page-shares.ts'
import { RunBranches } from './run-branches.ts'
import { RunReader } from './run-reader.ts'
import { DENSE, END, FIRST_PAGE, LAST_PAGE, RunStore, RUN_STRIDE, START } from './run-store.ts'

/** From this many blocks on, a run that shares a page takes about as much memory as loose blocks (22 to 25 bytes each). */
export const RUN_BLOCKS_MIN = 7
/** From this many on, a new run gets pages of its own. */
export const LONG_RUN_MIN = 28
/** A run that has grown to so many blocks moves to half a page. */
const HALF_PAGE_MIN = 16
/** From this length on a native copy is faster than a loop. */
const COPY_MIN = 64

export class RunBlocks {
  readonly arena: BlockArena
  readonly anchors: AnchorTable
  readonly runs: RunStore
  readonly branches: RunBranches
  readonly reader: RunReader
  /** Number of blocks present, and of blocks ever added. */
  count = 0
  added = 0

  constructor(blocksMax: number) {
    this.arena = new BlockArena(blocksMax)
    this.anchors = new AnchorTable(this.arena)
    // Runs that share pages, and runs with pages.
    this.runs = new RunStore(2 * this.arena.pageCapacity)
    this.branches = new RunBranches(this.arena, this.runs)
    this.reader = new RunReader(this.arena, this.runs)
  }

  get bytes(): number {
    return this.arena.bytes + this.anchors.bytes + this.runs.bytes
  }

  /** `bytes` plus the growth that the present blocks may cause. */
  get bytesNeeded(): number {
    return this.arena.bytes + this.anchors.bytesNeeded + this.runs.bytes
  }

  /** Memory of a run in bytes: its record, and its pages or its part of one. */
  bytesOf(run: number): number {
    const { records } = this.runs
    const record = run * RUN_STRIDE
    const first = (records[record + START] as number) >> PAGE_BITS
    const last = ((records[record + END] as number) - 1) >> PAGE_BITS
    const pageBytes = this.arena.partBytes(records[record + FIRST_PAGE] as number)
    return 4 * RUN_STRIDE + (last - first + 1) * pageBytes
  }

  isSparse(run: number): boolean {
    return this.runs.records[run * RUN_STRIDE + DENSE] === 0
  }

  /**
   * Index of the first hash from `i` on that begins a detached run (one without its predecessor), or the number of
   * hashes.
   */
  nextStart(hashes: Uint32Array, i: number): number {
    const count = hashes.length >> 1
    if (this.branches.detached === 0) return count
    while (
      i < count &&
      this.anchors.lookup((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0) < 0
    ) {
      i += 1
    }
    return i
  }

  /** Whether the blocks of a store would fit into an empty index. */
  mayFit(hashes: Uint32Array): boolean {
    return Math.ceil(hashes.length / (2 * PAGE_BLOCKS)) <= this.arena.pageCapacity
  }

  /** Whether the blocks of a store certainly fit, however they are divided into runs. */
  hasCapacity(hashes: Uint32Array): boolean {
    const count = hashes.length >> 1
    const available = this.arena.pagesAvailable
    if (available > 2 * count) return true
    // Every run that begins within the event may need an additional page.
    const full = Math.ceil(count / PAGE_BLOCKS)
    return available >= full + Math.min(count, this.branches.detached)
  }

  /** Whether this many blocks fit at the end of one run, or into a new one. */
  hasPagesFor(count: number): boolean {
    return this.arena.pagesAvailable >= Math.ceil(count / PAGE_BLOCKS)
  }

  /** Whether the block at a position is the last one of its run, and no run begins after it. */
  isOpenEnd(position: number): boolean {
    if (this.branches.mayFollow(position)) return false
    const end = this.runs.records[this.arena.runOf(position) * RUN_STRIDE + END] as number
    return this.arena.offsetOf(position) === end - 1
  }

  /**
   * Whether a new run may share a page. The limit, an eighth of the memory for records, is for traffic that changes: a
   * record of a short run that is gone can be used by another run, but not for the blocks of long ones.
   */
  get mayShare(): boolean {
    return this.runs.live < this.arena.pageCapacity
  }

  /** Gives a new run the smallest share of a page that has space for so many blocks; returns the run's first offset. */
  share(run: number, count: number): number {
    return this.#place(run, this.arena.takeShare(run, sharesFor(count)), 0)
  }

  /** Sets the position of the first block, in the only page of a run; returns the run's first offset. */
  #place(run: number, position: number, count: number): number {
    const { records } = this.runs
    const record = run * RUN_STRIDE
    const start = position & PAGE_MASK
    records[record + FIRST_PAGE] = position >> PAGE_BITS
    records[record + LAST_PAGE] = position >> PAGE_BITS
    records[record + START] = start
    records[record + END] = start + count
    return start
  }

  /**
   * Moves a run from its share of a page to a place where it can grow to so many blocks; returns by how much its offsets
   * change.
   */
  move(run: number, total: number): number {
    const { anchors, arena, branches } = this
    const before = this.runs.records[run * RUN_STRIDE + START] as number
    const count = this.runs.length(run)
    const from = this.reader.firstOf(run)
    // A size larger than it needs now, because a chain that grows will grow again; from 16 blocks on half a page is not
    // more than loose blocks take.
    const shares = total >= HALF_PAGE_MIN ? 2 : sharesFor(total) - 1
    const isLong = sharesFor(total) < 2
    const to = isLong ? arena.take(run, 0) << PAGE_BITS : arena.takeShare(run, shares)
    arena.hashes.copyWithin(2 * to, 2 * from, 2 * (from + count))
    for (let i = 0; i < count; i++) {
      if (!arena.hasMark(from + i)) continue
      if (arena.isMarked(from + i, ANCHORED)) {
        anchors.drop(from + i)
        anchors.add(to + i)
      }
      branches.moved(from + i, to + i)
    }
    arena.releaseShare(from)
    return this.#place(run, to, count) - before
  }

  /** Appends blocks to a run; the caller has checked the space. The first block of a new run is anchored. */
  append(run: number, hashes: Uint32Array, from: number, count: number): void {
    const { records } = this.runs
    const record = run * RUN_STRIDE
    const start = records[record + START] as number
    const begin = records[record + END] as number
    const end = begin + count
    let page = records[record + LAST_PAGE] as number
    let copied = from
    let target = -1
    let pending = 0
    for (let at = begin; at < end;) {
      if (page < 0 || ((at & PAGE_MASK) === 0 && at > start)) {
        page = this.#addPage(run, page, at >> PAGE_BITS)
      }
      const stop = Math.min(end, (at | PAGE_MASK) + 1)
      const position = (page << PAGE_BITS) + (at & PAGE_MASK)
      if (position !== target + pending) {
        this.#copy(target, pending, hashes, copied)
        copied += pending
        target = position
        pending = 0
      }
      pending += stop - at
      at = stop
    }
    this.#copy(target, pending, hashes, copied)
    records[record + END] = end
    records[record + LAST_PAGE] = page
    this.count += count
    this.added += count
    if (begin === start) this.anchors.add(this.reader.firstOf(run))
    if (records[record + DENSE] === 1) this.#anchorFrom(run, begin)
  }

  #addPage(run: number, last: number, index: number): number {
    const { pages } = this.arena
    const page = this.arena.take(run, index)
    if (last < 0) this.runs.records[run * RUN_STRIDE + FIRST_PAGE] = page
    else {
      pages[last * PAGE_STRIDE + NEXT] = page
      pages[page * PAGE_STRIDE + PREVIOUS] = last
    }
    return page
  }

  #copy(position: number, count: number, hashes: Uint32Array, from: number): void {
    const { hashes: blocks } = this.arena
    if (count >= COPY_MIN) {
      blocks.set(hashes.subarray(2 * from, 2 * (from + count)), 2 * position)
      return
    }
    let target = 2 * position
    let source = 2 * from
    for (const last = source + 2 * count; source < last; source++, target++) {
      blocks[target] = hashes[source] as number
    }
  }

  /** Makes a run dense: anchors all its blocks, now and later; returns its number of blocks. */
  densify(run: number): number {
    const record = run * RUN_STRIDE
    this.runs.records[record + DENSE] = 1
    const start = this.runs.records[record + START] as number
    this.#anchorFrom(run, start)
    return (this.runs.records[record + END] as number) - start
  }

  #anchorFrom(run: number, begin: number): void {
    const { records } = this.runs
    let page = records[run * RUN_STRIDE + LAST_PAGE] as number
    for (let at = (records[run * RUN_STRIDE + END] as number) - 1; at >= begin; at--) {
      this.anchors.add((page << PAGE_BITS) + (at & PAGE_MASK))
      if ((at & PAGE_MASK) === 0) page = this.arena.pages[page * PAGE_STRIDE + PREVIOUS] as number
    }
  }

  #dropRange(from: number, to: number): void {
    if (!this.arena.hasMarks(from >> PAGE_BITS)) return
    this.anchors.dropRange(from, to)
    this.branches.drop(from, to)
  }

  /** Removes the blocks from an offset on. */
  trimTail(run: number, end: number): void {
    const { records } = this.runs
    const record = run * RUN_STRIDE
    const start = records[record + START] as number
    let at = records[record + END] as number
    if (at === end) return
    this.count -= at - end
    let page = records[record + LAST_PAGE] as number
    const isShared = this.arena.isShared(page)
    while (at > end) {
      const begin = (this.arena.pages[page * PAGE_STRIDE + INDEX] as number) << PAGE_BITS
      const stop = Math.max(begin, end, start)
      const first = (page << PAGE_BITS) - begin
      this.#dropRange(first + stop, first + at)
      at = stop
      if (isShared) {
        if (stop === start) this.arena.releaseShare(first + stop)
      } else if (stop === begin || stop === start) {
        const previous = this.arena.pages[page * PAGE_STRIDE + PREVIOUS] as number
        this.arena.release(page)
        page = previous
      }
    }
    records[record + END] = end
    records[record + LAST_PAGE] = page
    if (page >= 0 && !isShared) this.arena.pages[page * PAGE_STRIDE + NEXT] = -1
  }

  /** Removes the blocks before an offset; some must remain. */
  trimHead(run: number, start: number): void {
    const { records } = this.runs
    const record = run * RUN_STRIDE
    let at = records[record + START] as number
    if (at === start) return
    this.count -= start - at
    let page = records[record + FIRST_PAGE] as number
    while (at < start) {
      const begin = (this.arena.pages[page * PAGE_STRIDE + INDEX] as number) << PAGE_BITS
      const stop = Math.min(begin + PAGE_BLOCKS, start)
      const first = (page << PAGE_BITS) - begin
      this.#dropRange(first + at, first + stop)
      at = stop
      if (stop === begin + PAGE_BLOCKS) {
        const next = this.arena.pages[page * PAGE_STRIDE + NEXT] as number
        this.arena.release(page)
        page = next
      }
    }
    records[record + START] = start
    records[record + FIRST_PAGE] = page
    if (!this.arena.isShared(page)) this.arena.pages[page * PAGE_STRIDE + PREVIOUS] = -1
    this.anchors.add(this.reader.firstOf(run))
    this.branches.detach(run)
  }

  /** Removes all blocks and the run. */
  free(run: number): void {
    this.trimTail(run, this.runs.records[run * RUN_STRIDE + START] as number)
    this.branches.leave(run)
    this.runs.free(run)
    if (this.runs.live > 0) return
    this.arena.clear()
    this.runs.clear()
  }
}
