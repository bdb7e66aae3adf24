/**
 * Removes a set of blocks of a holder, some of its runs at a time.
 *
 * The blocks of the runs are read one after the other, which the processor prefetches, and each is looked up in the set, a
 * table that fits into its cache. A run of which few blocks are left is dissolved.
 */
import { BLOCK_BYTES } from '../loose/loose-blocks.ts'
import { NEXT, PAGE_BITS, PAGE_MASK, PAGE_STRIDE } from '../arena/block-arena.ts'
import { LONG_RUN_MIN } from './run-blocks.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunDissolution } from './run-dissolution.ts'
import type { RunHoldings } from './run-holdings.ts'
import { COUNT, FIRST_PAGE, HOLDING, RUN_STRIDE, START } from './run-store.ts'
import { grown } from '../words/grown.ts'
import type { WantedHashes } from '../words/wanted-hashes.ts'

/** A run with more holders is not dissolved: a query would visit all of them for every block. */
const HOLDERS_MAX = 8
/** Blocks are looked up together of so many runs at most. */
const RUNS_MAX = 128
const SPACE_MIN = 512
/** Times the memory of loose blocks that a run may take. */
const WASTE = 6

export class RunSweep {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #dissolution: RunDissolution
  /** The gathered blocks: their offsets in their runs, their positions, and whether they are removed. */
  #offsets = new Int32Array(SPACE_MIN)
  #positions = new Int32Array(SPACE_MIN)
  #isTaken = new Uint8Array(SPACE_MIN)
  /** Where the gathered blocks of a run end. */
  readonly #ends = new Int32Array(RUNS_MAX)
  /** Number of blocks that the last `sweep` has read. */
  read = 0

  constructor(blocks: RunBlocks, holdings: RunHoldings, dissolution: RunDissolution) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#dissolution = dissolution
  }

  /**
   * Removes the holder's wanted blocks from some of its runs with about `part` blocks, from number `from` of the list on, and
   * takes them from the set; returns the number after the last run. Runs that the holder has left are skipped. Call `flush` after the last one.
   */
  sweep(
    holder: number,
    list: Int32Array,
    from: number,
    part: number,
    wanted: WantedHashes,
  ): number {
    const next = this.#gather(holder, list, from, part)
    wanted.takeEach(this.#blocks.arena.words, this.#positions, this.read, this.#isTaken)
    for (let i = from, start = 0; i < next; i++) {
      const end = this.#ends[i - from] as number
      this.#sweepRun(holder, list[i] as number, start, end)
      start = end
    }
    return next
  }

  /** Makes loose what is left of dissolved runs. */
  flush(): void {
    this.#dissolution.flush()
  }

  /** Gathers the holder's blocks of some runs; returns the number after the last run. */
  #gather(holder: number, list: Int32Array, from: number, part: number): number {
    const { arena, runs } = this.#blocks
    const { pages } = arena
    const stop = Math.min(list.length, from + RUNS_MAX)
    let count = 0
    let i = from
    for (; i < stop && count < part; i++) {
      const run = list[i] as number
      const k = runs.isFree(run) ? -1 : runs.holdingOf(run, holder)
      if (k >= 0) {
        const record = run * RUN_STRIDE
        this.#reserve(count + runs.length(run))
        const offsets = this.#offsets
        const positions = this.#positions
        const to = this.#holdings.offsetsOf(
          run,
          runs.holdings(run)[k + 1] as number,
          offsets,
          count,
        )
        let index = (runs.records[record + START] as number) >> PAGE_BITS
        let page = runs.records[record + FIRST_PAGE] as number
        for (; count < to; count++) {
          const at = offsets[count] as number
          for (; at >> PAGE_BITS !== index; index++)
            page = pages[page * PAGE_STRIDE + NEXT] as number
          positions[count] = (page << PAGE_BITS) + (at & PAGE_MASK)
        }
      }
      this.#ends[i - from] = count
    }
    this.read = count
    return i
  }

  #reserve(length: number): void {
    if (this.#offsets.length >= length) return
    this.#offsets = grown(this.#offsets, 2 * length)
    this.#positions = grown(this.#positions, 2 * length)
    this.#isTaken = new Uint8Array(2 * length)
  }

  /** Removes the blocks of a run that have been taken of the gathered ones `from` .. `to`, which are the holder's. */
  #sweepRun(holder: number, run: number, from: number, to: number): void {
    const { runs } = this.#blocks
    const offsets = this.#offsets
    const positions = this.#positions
    let kept = from
    for (let i = from; i < to; i++) {
      offsets[kept] = offsets[i] as number
      positions[kept] = positions[i] as number
      kept += 1 ^ (this.#isTaken[i] as number)
    }
    const left = kept - from
    if (kept === to) return
    const isOnly = runs.records[run * RUN_STRIDE + COUNT] === 1
    if (isOnly && !this.#isShort(run) && this.#isWasteful(run, left)) {
      let head = 0
      const start = runs.records[run * RUN_STRIDE + START] as number
      while (head < left && offsets[from + head] === start + head) head += 1
      if (this.#dissolution.take(run, holder, head, positions, from, kept)) return
    }
    this.#holdings.keepEach(run, holder, runs.holdingOf(run, holder), offsets, from, kept)
    if (left === 0 || runs.isFree(run) || this.#isShort(run)) return
    if (this.#isWasteful(run, this.#pairsOf(run))) this.#dissolution.dissolve(run)
  }

  /** Number of (holder, block) pairs of a run; without limit if it has too many holders to be dissolved. */
  #pairsOf(run: number): number {
    const { runs } = this.#blocks
    const holders = runs.records[run * RUN_STRIDE + COUNT] as number
    if (holders > HOLDERS_MAX) return Infinity
    const list = runs.holdings(run)
    const first = runs.firstHolding(run)
    let pairs = 0
    for (let k = first; k < first + HOLDING * holders; k += HOLDING) {
      pairs += this.#holdings.countOf(run, list[k + 1] as number)
    }
    return pairs
  }

  /**
   * Short runs stay until their memory is wanted (`RunRelease`): converting each of them would take longer than the rest of
   * the pass.
   */
  #isShort(run: number): boolean {
    return this.#blocks.runs.length(run) < LONG_RUN_MIN
  }

  /** Whether so many (holder, block) pairs would take much less memory as loose blocks than their run does. */
  #isWasteful(run: number, pairs: number): boolean {
    return WASTE * BLOCK_BYTES * pairs < this.#blocks.bytesOf(run)
  }
}
