/**
 * Converts the blocks of a run back to loose blocks, when few of them are left and a run would take more memory.
 *
 * Owns the conversion of the run's holders and of the runs that branch off it, and the time until queries may build runs
 * from dissolved blocks again.
 */
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import { BRANCHED, NEXT, PAGE_BITS, PAGE_MASK, PAGE_STRIDE } from '../arena/block-arena.ts'
import { LONG_RUN_MIN } from './run-blocks.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'
import { COUNT, END, FIRST_PAGE, HOLDING, RUN_STRIDE, START } from './run-store.ts'

/** So many blocks of a holder become loose together. */
const GATHERED = 256
/** After a dissolution, queries build no runs until this many blocks have been stored per dissolved block. */
const REST_SHARE = 4

export class RunDissolution {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  /** The blocks of the run in progress. */
  #hashes = new Uint32Array(2 * GATHERED)
  /** Blocks that have been taken from their runs and will be loose (`flush`), their number and their only holder. */
  readonly #gathered = new Uint32Array(2 * GATHERED)
  #count = 0
  #holder = 0
  #rest = 0

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
  }

  /**
   * Dissolves what follows the first hole of a run: no query gets past a block without a holder. Short remains are
   * dissolved, too. Call `flush` after the last one.
   */
  dissolve(run: number): void {
    const { runs } = this.#blocks
    const hole = this.#holdings.firstHole(run)
    const end = runs.records[run * RUN_STRIDE + END] as number
    this.#cutTail(run, hole === end ? (runs.records[run * RUN_STRIDE + START] as number) : hole)
  }

  /**
   * Dissolves a run with one holder, which keeps the blocks at the positions number `from` .. `to`. False if the run begins
   * with a long part without a hole (`head` blocks), or if other runs branch off it: nothing has changed.
   */
  take(
    run: number,
    holder: number,
    head: number,
    positions: Int32Array,
    from: number,
    to: number,
  ): boolean {
    if (head >= LONG_RUN_MIN || this.#blocks.branches.isRunBranched(run)) return false
    const { hashes } = this.#blocks.arena
    this.#gatherFor(holder)
    for (let i = from; i < to; i++) {
      const word = 2 * (positions[i] as number)
      this.#gather(hashes[word] as number, hashes[word + 1] as number)
    }
    this.#holdings.dropRun(run)
    return true
  }

  /** Makes the last blocks of a run loose, about so many or all that are left; returns their number. */
  release(run: number, blocks: number): number {
    const { runs } = this.#blocks
    const start = runs.records[run * RUN_STRIDE + START] as number
    let from = Math.max(start, (runs.records[run * RUN_STRIDE + END] as number) - blocks)
    // A run ends with a block that has a holder.
    while (from > start && !this.#holdings.isHeld(run, from - 1)) from -= 1
    const count = this.#cutTail(run, from)
    this.flush()
    return count
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
    const { branches, runs } = this.#blocks
    const record = run * RUN_STRIDE
    const holders = runs.records[record + COUNT] as number
    const count = (runs.records[record + END] as number) - from
    this.#read(run, from, count)
    for (let k = 0; k < holders; k++) this.#addHolding(run, k, from, count)
    if (branches.isRunBranched(run)) this.#takeBranches(run, from, count)
    if (from === runs.records[record + START]) this.#holdings.dropRun(run)
    else this.#holdings.cutTail(run, from)
    return count
  }

  /** Copies the hashes of a run from an offset on. */
  #read(run: number, from: number, count: number): void {
    const { arena, reader, runs } = this.#blocks
    if (this.#hashes.length < 2 * count) this.#hashes = new Uint32Array(4 * count)
    const hashes = this.#hashes
    const blocks = arena.hashes
    const first = runs.records[run * RUN_STRIDE + FIRST_PAGE] as number
    let page = reader.positionNear(first, from) >> PAGE_BITS
    for (let k = 0, at = from; k < 2 * count; k += 2, at++) {
      const position = (page << PAGE_BITS) + (at & PAGE_MASK)
      hashes[k] = blocks[2 * position] as number
      hashes[k + 1] = blocks[2 * position + 1] as number
      if ((at & PAGE_MASK) === PAGE_MASK) page = arena.pages[page * PAGE_STRIDE + NEXT] as number
    }
  }

  /** Gathers a holder's blocks of the run from an offset on. */
  #addHolding(run: number, k: number, from: number, count: number): void {
    const { runs } = this.#blocks
    const list = runs.holdings(run)
    const at = runs.firstHolding(run) + HOLDING * k
    const holder = list[at] as number
    const held = list[at + 1] as number
    this.#gatherFor(holder)
    for (let i = 0; i < count; i++) {
      if (!this.#holdings.hasAt(held, from + i)) continue
      this.#gather(this.#hashes[2 * i] as number, this.#hashes[2 * i + 1] as number)
    }
  }

  #gatherFor(holder: number): void {
    if (holder !== this.#holder) this.flush()
    this.#holder = holder
  }

  #gather(low: number, high: number): void {
    if (this.#count === GATHERED) this.flush()
    this.#gathered[2 * this.#count] = low
    this.#gathered[2 * this.#count + 1] = high
    this.#count += 1
  }

  /** Makes the gathered blocks loose. */
  flush(): void {
    const count = this.#count
    if (count === 0) return
    this.#count = 0
    // Another holder may have made some of them loose before.
    this.#loose.addOrHold(this.#gathered, 0, count, this.#holder)
    this.#rest = Math.min(this.#rest + REST_SHARE * count, REST_SHARE * this.#loose.count)
  }

  /** The runs that branch off this one from an offset on now begin after loose blocks. */
  #takeBranches(run: number, from: number, count: number): void {
    const { arena, branches, reader, runs } = this.#blocks
    this.flush()
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
