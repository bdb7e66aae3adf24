/**
 * Runs and their blocks: adding at the end, taking away at both ends, comparing, and finding by hash.
 *
 * Owns: arena, anchors, run records and branches, kept in step with each other. Does not know what a
 * holder is for; a run must have intervals (`RunHoldings`) whenever control leaves the index.
 */
import { AnchorTable } from './anchor-table.ts'
import { BlockArena, INDEX, NEXT, PAGE_BITS, PAGE_BLOCKS, PAGE_MASK } from './block-arena.ts'
import { PAGE_STRIDE, PREVIOUS, RUN } from './block-arena.ts'
import { RunBranches } from './run-branches.ts'
import { DENSE, END, FIRST_PAGE, LAST_PAGE, RunStore, RUN_STRIDE, START } from './run-store.ts'

/** From this length on a native copy beats a loop. */
const COPY_MIN = 64

export class RunBlocks {
  readonly arena: BlockArena
  readonly anchors: AnchorTable
  readonly runs = new RunStore()
  readonly branches: RunBranches
  /** Blocks that are kept, and blocks that were ever added. */
  count = 0
  added = 0
  /** Page of the last block that `match` found equal. */
  matchedPage = 0

  constructor(blocksMax: number) {
    this.arena = new BlockArena(blocksMax)
    this.anchors = new AnchorTable(this.arena)
    this.branches = new RunBranches(this.arena, this.runs)
  }

  get bytes(): number {
    return this.arena.bytes + this.anchors.bytes + this.runs.bytes
  }

  runOf(position: number): number {
    return this.arena.pages[(position >> PAGE_BITS) * PAGE_STRIDE + RUN] as number
  }

  isSparse(run: number): boolean {
    return this.runs.records[run * RUN_STRIDE + DENSE] === 0
  }

  /** The first hash from `i` on that begins a run which has lost its predecessor, or the number of hashes. */
  nextStart(hashes: Uint32Array, i: number): number {
    const count = hashes.length >> 1
    if (this.branches.detached === 0) return count
    while (
      i < count &&
      this.anchors.lookup(hashes[2 * i] as number, hashes[2 * i + 1] as number) < 0
    ) {
      i += 1
    }
    return i
  }

  /** How many of `limit` blocks from a place of a run on equal the hashes from `i` on. */
  match(page: number, at: number, limit: number, hashes: Uint32Array, i: number): number {
    const { hashes: blocks, pages } = this.arena
    let equal = 0
    while (equal < limit) {
      const slot = (at + equal) & PAGE_MASK
      const chunk = Math.min(PAGE_BLOCKS - slot, limit - equal)
      const block = 2 * ((page << PAGE_BITS) + slot)
      const query = 2 * (i + equal)
      let high = 2 * (chunk - 1)
      if (
        blocks[block + high] === hashes[query + high] &&
        blocks[block + high + 1] === hashes[query + high + 1]
      ) {
        equal += chunk
        this.matchedPage = page
        if (equal < limit) page = pages[page * PAGE_STRIDE + NEXT] as number
        continue
      }
      let low = 0
      while (low < high) {
        const middle = ((low + high) >> 2) << 1
        if (
          blocks[block + middle] === hashes[query + middle] &&
          blocks[block + middle + 1] === hashes[query + middle + 1]
        ) {
          low = middle + 2
        } else high = middle
      }
      if (low > 0) this.matchedPage = page
      return equal + (low >> 1)
    }
    return equal
  }

  /** How many hashes from `i` on name, one by one, the blocks before a place; at most `limit`. */
  matchBackward(page: number, at: number, limit: number, hashes: Uint32Array, i: number): number {
    const { hashes: blocks, pages } = this.arena
    let equal = 0
    while (equal < limit) {
      let slot = (at - equal) & PAGE_MASK
      if (slot === 0) {
        page = pages[page * PAGE_STRIDE + PREVIOUS] as number
        slot = PAGE_BLOCKS
      }
      let block = 2 * ((page << PAGE_BITS) + slot - 1)
      let query = 2 * (i + equal)
      const begin = query
      const last = query + 2 * Math.min(slot, limit - equal)
      while (
        query < last &&
        blocks[block] === hashes[query] &&
        blocks[block + 1] === hashes[query + 1]
      ) {
        query += 2
        block -= 2
      }
      equal += (query - begin) >> 1
      if (query < last) break
    }
    return equal
  }

  /** How many hashes from `i` on name, one by one, the blocks from a place on; at most `limit`. */
  matchForward(page: number, at: number, limit: number, hashes: Uint32Array, i: number): number {
    const { hashes: blocks, pages } = this.arena
    let equal = 0
    while (equal < limit) {
      const slot = (at + equal) & PAGE_MASK
      if (slot === 0) page = pages[page * PAGE_STRIDE + NEXT] as number
      const block = 2 * ((page << PAGE_BITS) + slot)
      const query = 2 * (i + equal)
      if (blocks[block] !== hashes[query] || blocks[block + 1] !== hashes[query + 1]) break
      equal += 1
    }
    return equal
  }

  /** The block at an offset, found from a page of the same run. */
  positionNear(page: number, at: number): number {
    const { pages } = this.arena
    const index = at >> PAGE_BITS
    while ((pages[page * PAGE_STRIDE + INDEX] as number) > index) {
      page = pages[page * PAGE_STRIDE + PREVIOUS] as number
    }
    while ((pages[page * PAGE_STRIDE + INDEX] as number) < index) {
      page = pages[page * PAGE_STRIDE + NEXT] as number
    }
    return (page << PAGE_BITS) + (at & PAGE_MASK)
  }

  /** The position of a hash in a run, by looking at each block, or -1. */
  positionIn(run: number, low: number, high: number): number {
    const { hashes: blocks, pages } = this.arena
    const { records } = this.runs
    const end = records[run * RUN_STRIDE + END] as number
    let page = records[run * RUN_STRIDE + FIRST_PAGE] as number
    for (let at = records[run * RUN_STRIDE + START] as number; at < end;) {
      const stop = Math.min(end, (at | PAGE_MASK) + 1)
      let block = 2 * ((page << PAGE_BITS) + (at & PAGE_MASK))
      const last = block + 2 * (stop - at)
      for (; block < last; block += 2) {
        if (blocks[block] === low && blocks[block + 1] === high) return block >> 1
      }
      at = stop
      page = pages[page * PAGE_STRIDE + NEXT] as number
    }
    return -1
  }

  /** Whether all blocks of a store surely fit, however they fall into runs. */
  hasRoom(hashes: Uint32Array): boolean {
    const count = hashes.length >> 1
    const available = this.arena.pagesAvailable
    const full = Math.ceil(count / PAGE_BLOCKS)
    if (available >= full + count) return true
    // Every run that begins within the event may break a page in two.
    return available >= full + Math.min(count, this.branches.detached)
  }

  /** Adds blocks at the end of a run that the caller has checked there is room for. A new run's start is anchored. */
  append(run: number, hashes: Uint32Array, from: number, count: number): void {
    const { pages } = this.arena
    const { records } = this.runs
    const record = run * RUN_STRIDE
    const begin = records[record + END] as number
    const end = begin + count
    let page = records[record + LAST_PAGE] as number
    let copied = 0
    let target = -1
    let pending = 0
    for (let at = begin; at < end;) {
      if (page < 0 || (at & PAGE_MASK) === 0) {
        const next = this.arena.take(run, at >> PAGE_BITS)
        if (page < 0) records[record + FIRST_PAGE] = next
        else {
          pages[page * PAGE_STRIDE + NEXT] = next
          pages[next * PAGE_STRIDE + PREVIOUS] = page
        }
        page = next
      }
      const stop = Math.min(end, (at | PAGE_MASK) + 1)
      const position = (page << PAGE_BITS) + (at & PAGE_MASK)
      if (position !== target + pending) {
        this.#copy(target, pending, hashes, from + copied)
        copied += pending
        target = position
        pending = 0
      }
      pending += stop - at
      at = stop
    }
    this.#copy(target, pending, hashes, from + copied)
    records[record + END] = end
    records[record + LAST_PAGE] = page
    this.count += count
    this.added += count
    if (begin === 0) this.anchors.add(this.startOf(run))
    if (records[record + DENSE] === 1) this.#anchorFrom(run, begin)
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

  /** Anchors every block of a run from now on; returns how many it has. */
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

  /** Position of the first block of a run. */
  startOf(run: number): number {
    const page = this.runs.records[run * RUN_STRIDE + FIRST_PAGE] as number
    return (
      (page << PAGE_BITS) + ((this.runs.records[run * RUN_STRIDE + START] as number) & PAGE_MASK)
    )
  }

  /** Position of the last block of a run. */
  lastOf(run: number): number {
    const page = this.runs.records[run * RUN_STRIDE + LAST_PAGE] as number
    return (
      (page << PAGE_BITS) +
      (((this.runs.records[run * RUN_STRIDE + END] as number) - 1) & PAGE_MASK)
    )
  }

  #dropRange(from: number, to: number): void {
    this.anchors.dropRange(from, to)
    this.branches.drop(from, to)
  }

  /** Drops the blocks from an offset on. */
  trimTail(run: number, end: number): void {
    const { records } = this.runs
    const record = run * RUN_STRIDE
    const start = records[record + START] as number
    let at = records[record + END] as number
    if (at === end) return
    this.count -= at - end
    let page = records[record + LAST_PAGE] as number
    while (at > end) {
      const begin = (this.arena.pages[page * PAGE_STRIDE + INDEX] as number) << PAGE_BITS
      const stop = Math.max(begin, end, start)
      const first = (page << PAGE_BITS) - begin
      this.#dropRange(first + stop, first + at)
      at = stop
      if (stop === begin || stop === start) {
        const previous = this.arena.pages[page * PAGE_STRIDE + PREVIOUS] as number
        this.arena.release(page)
        page = previous
      }
    }
    records[record + END] = end
    records[record + LAST_PAGE] = page
    if (page >= 0) this.arena.pages[page * PAGE_STRIDE + NEXT] = -1
  }

  /** Drops the blocks before an offset; some remain. */
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
    this.arena.pages[page * PAGE_STRIDE + PREVIOUS] = -1
    this.anchors.add(this.startOf(run))
    this.branches.detach(run)
  }

  /** Drops all blocks and the run. */
  free(run: number): void {
    this.trimTail(run, this.runs.records[run * RUN_STRIDE + START] as number)
    this.branches.leave(run)
    this.runs.free(run)
  }
}
