/**
 * Converts the blocks of a run back to loose blocks, when they are evicted one by one in no particular order.
 *
 * Finding a block in the middle of a run takes five dependent memory accesses (anchor, page, run, holding, block
 * set); finding a loose block takes one. Owns the conversion of the run's holders and of the runs that branch off it,
 * and the time until queries may build runs from dissolved blocks again.
 */
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import { BRANCHED, NEXT, PAGE_BITS, PAGE_MASK, PAGE_STRIDE } from './block-arena.ts'
import { LONG_RUN_MIN } from './run-blocks.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'
import { COUNT, END, FIRST_PAGE, HOLDING, RUN_STRIDE, START } from './run-store.ts'

/** A run with more holders is not dissolved: a query would visit all of them for every block. */
const HOLDERS_MAX = 8
/** A longer run is not dissolved: a query reads loose blocks one by one, but runs by pages. */
const BLOCKS_MAX = 128
/** So many blocks of one holder's runs become loose together. */
const GATHERED = 256
/** After a dissolution, queries build no runs until this many blocks have been stored per dissolved block. */
const REST_SHARE = 4

/** Engines of a fleet evict alike: other holders' blocks, so many times those of the known ones, are expected to follow. */
const EXPECTED_TIMES = 4

export class RunDissolution {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  /** The blocks of the run in progress, after the gathered ones. */
  #hashes = new Uint32Array(4 * GATHERED)
  /** Number of blocks that have been taken from their runs and will be loose (`#flush`); and their only holder. */
  #gathered = 0
  #holder = 0
  #rest = 0
  /** Holders that evict in no order, and number of blocks that they had in runs then and that are not yet loose. */
  readonly #evicting = new Set<number>()
  #coming = 0

  constructor(blocks: RunBlocks, holdings: RunHoldings, loose: LooseBlocks) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#loose = loose
  }

  /** Whether runs were dissolved recently, so that loose blocks should stay loose. */
  get isResting(): boolean {
    return this.#rest > 0
  }

  stored(blocks: number): void {
    if (this.#rest > 0) this.#rest -= blocks
    if (this.#coming > 0) this.#expect(-blocks)
  }

  /** Dissolves a run, or makes it dense if it is long or has many holders; returns its number of blocks. */
  dissolve(run: number): number {
    const count = this.#dissolve(run)
    this.#flush()
    return count
  }

  #dissolve(run: number): number {
    const { runs } = this.#blocks
    if (runs.isFree(run) || !this.#blocks.isSparse(run)) return 0
    const holders = runs.records[run * RUN_STRIDE + COUNT] as number
    if (holders > HOLDERS_MAX || runs.length(run) > BLOCKS_MAX) return this.#holdings.densify(run)
    if (this.#isSimple(run)) return this.#gather(run)
    this.#flush()
    return this.#convert(run, runs.records[run * RUN_STRIDE + START] as number)
  }

  /** Whether one holder has all blocks of a run, and no run branches off it, as is usual for short ones. */
  #isSimple(run: number): boolean {
    const { branches, runs } = this.#blocks
    if (runs.records[run * RUN_STRIDE + COUNT] !== 1) return false
    const held = runs.holdings(run)[runs.firstHolding(run) + 1] as number
    return held >= 0 && !branches.isRunBranched(run)
  }

  /** Takes a simple run's blocks from it; returns their number. */
  #gather(run: number): number {
    const { runs } = this.#blocks
    const holder = runs.holdings(run)[runs.firstHolding(run)] as number
    const count = runs.length(run)
    if (this.#gathered > 0 && this.#holder !== holder) this.#flush()
    this.#read(run, runs.records[run * RUN_STRIDE + START] as number, count)
    this.#holder = holder
    this.#gathered += count
    this.#holdings.dropRun(run)
    if (this.#gathered >= GATHERED) this.#flush()
    return count
  }

  /** Makes the gathered blocks loose. */
  #flush(): void {
    const count = this.#gathered
    if (count === 0) return
    this.#gathered = 0
    // A faulty peer may have made some of them loose before.
    this.#loose.addOrHold(this.#hashes, 0, count, this.#holder)
    this.#rest += REST_SHARE * count
    this.#dissolved(count)
  }

  /** Blocks have become loose. */
  #dissolved(count: number): void {
    if (this.#coming > 0) this.#expect(-count)
    this.#rest = Math.min(this.#rest, REST_SHARE * this.#loose.count)
  }

  /**
   * Dissolves what follows the first hole of a run: no query gets past a block without a holder. Short remains are
   * dissolved, too. Returns the number of blocks from the hole on; 0 if there is no hole.
   */
  dissolveAfterHole(run: number): number {
    const { runs } = this.#blocks
    if (runs.isFree(run)) return 0
    const record = run * RUN_STRIDE
    if ((runs.records[record + COUNT] as number) > HOLDERS_MAX) return 0
    const hole = this.#holdings.firstHole(run)
    if (hole === runs.records[record + END]) return 0
    return this.#cutTail(run, hole)
  }

  /** Makes the last blocks of a run loose, about so many or all that are left; returns their number. */
  release(run: number, blocks: number): number {
    const { runs } = this.#blocks
    const start = runs.records[run * RUN_STRIDE + START] as number
    let from = Math.max(start, (runs.records[run * RUN_STRIDE + END] as number) - blocks)
    // A run ends with a block that has a holder.
    while (from > start && !this.#holdings.isHeld(run, from - 1)) from -= 1
    return this.#cutTail(run, from)
  }

  /** Queries may build runs from dissolved blocks again. */
  endRest(): void {
    this.#rest = 0
  }

  /** Makes the blocks of a run from an offset on loose, or all if few are left; returns their number. */
  #cutTail(run: number, from: number): number {
    const { anchors, reader, runs } = this.#blocks
    const record = run * RUN_STRIDE
    const start = runs.records[record + START] as number
    if (from - start < LONG_RUN_MIN) return this.#convert(run, start)
    // Now the end of a holding, which may be named next.
    anchors.add(reader.positionNear(runs.records[record + FIRST_PAGE] as number, from - 1))
    return this.#convert(run, from)
  }

  /** Makes the blocks of a run from an offset on loose; returns their number. */
  #convert(run: number, from: number): number {
    const { runs } = this.#blocks
    const record = run * RUN_STRIDE
    const holders = runs.records[record + COUNT] as number
    const count = (runs.records[record + END] as number) - from
    this.#read(run, from, count)
    for (let k = 0; k < holders; k++) this.#addHolding(run, k, from, count)
    this.#takeBranches(run, from, count)
    if (from === runs.records[record + START]) {
      this.#holdings.dropRun(run)
      this.#rest += REST_SHARE * count
    } else this.#holdings.cutTail(run, from)
    this.#dissolved(count)
    return count
  }

  /** Dissolves runs of a holder with at least this many blocks in total, if it has them. */
  dissolveRuns(holder: number, blocks: number): void {
    if (this.#holdings.holders.sparseCount(holder) === 0) return
    const { list, first, count } = this.#holdings.holders.of(holder)
    // A copy, because the list changes with each dissolved run.
    const runs = list.slice(first, first + count)
    this.#expectAll(holder, runs)
    for (let k = 0; k < runs.length && blocks > 0; k++) blocks -= this.#dissolve(runs[k] as number)
    this.#flush()
  }

  /** If this is new: a holder evicts in no order, so all these runs will be dissolved. */
  #expectAll(holder: number, runs: Int32Array): void {
    if (this.#evicting.has(holder)) return
    this.#evicting.add(holder)
    const { runs: store } = this.#blocks
    let blocks = 0
    for (const run of runs) {
      const holders = store.records[run * RUN_STRIDE + COUNT] as number
      if (holders <= HOLDERS_MAX) blocks += store.length(run)
    }
    this.#expect(blocks)
  }

  #expect(change: number): void {
    // Runs may have been removed otherwise.
    this.#coming = Math.max(0, Math.min(this.#coming + change, this.#blocks.count))
    if (this.#coming === 0) this.#evicting.clear()
    this.#loose.expect(
      Math.min(EXPECTED_TIMES * this.#coming, this.#blocks.count),
      this.#blocks.count,
    )
  }

  /** Copies the hashes of a run from an offset on, after the gathered ones. */
  #read(run: number, from: number, count: number): void {
    const { arena, reader, runs } = this.#blocks
    const words = 2 * (this.#gathered + count)
    if (this.#hashes.length < words) {
      const longer = new Uint32Array(2 * words)
      longer.set(this.#hashes)
      this.#hashes = longer
    }
    const hashes = this.#hashes
    const blocks = arena.hashes
    const first = runs.records[run * RUN_STRIDE + FIRST_PAGE] as number
    let page = reader.positionNear(first, from) >> PAGE_BITS
    let at = from
    for (let k = words - 2 * count; k < words; k += 2, at++) {
      const position = (page << PAGE_BITS) + (at & PAGE_MASK)
      hashes[k] = blocks[2 * position] as number
      hashes[k + 1] = blocks[2 * position + 1] as number
      if ((at & PAGE_MASK) === PAGE_MASK) page = arena.pages[page * PAGE_STRIDE + NEXT] as number
    }
  }

  /** Makes a holder's blocks of the run from an offset on loose. */
  #addHolding(run: number, k: number, from: number, count: number): void {
    const { runs } = this.#blocks
    const list = runs.holdings(run)
    const at = runs.firstHolding(run) + HOLDING * k
    const holder = list[at] as number
    const held = list[at + 1] as number
    for (let i = 0; i < count;) {
      const stop = Math.min(count, this.#holdings.endOf(held, from + i) - from)
      this.#loose.addOrHold(this.#hashes, i, stop, holder)
      i = stop + 1
    }
  }

  /** The runs that branch off this one from an offset on now begin after loose blocks. */
  #takeBranches(run: number, from: number, count: number): void {
    const { arena, branches, reader, runs } = this.#blocks
    if (!branches.isRunBranched(run)) return
    let page = runs.records[run * RUN_STRIDE + FIRST_PAGE] as number
    for (let i = 0; i < count; i++) {
      const position = reader.positionNear(page, from + i)
      page = position >> PAGE_BITS
      if (!arena.isMarked(position, BRANCHED)) continue
      const low = (this.#hashes[2 * i] as number) | 0
      const high = (this.#hashes[2 * i + 1] as number) | 0
      if (!this.#loose.lookup(low, high)) continue
      this.#loose.isFollowed = true
      branches.becameLoose(position, low, high)
    }
  }
}
