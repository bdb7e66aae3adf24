/**
 * Where the hashes of blocks live: pages of 64 blocks (512 bytes) in one typed array.
 *
 * Owns: sequence hashes by position, pages and their links, the mark of which blocks the anchor table names.
 * A position is `page * 64 + slot`. The array is reserved once; the operating system commits a page when it is first
 * written, so a large bound costs nothing, and nothing is ever copied because of growth. Freed pages are reused last
 * in first out, which hands a new run neighbouring pages. Smaller pages defeat the processor's prefetching.
 */
export const PAGE_BITS = 6
export const PAGE_BLOCKS = 1 << PAGE_BITS
export const PAGE_MASK = PAGE_BLOCKS - 1

/** Fields of a page record. `INDEX` is the number of the page within its run, from offset 0 on. */
export const PAGE_STRIDE = 4
export const RUN = 0
export const NEXT = 1
export const PREVIOUS = 2
export const INDEX = 3

export class BlockArena {
  /** (low, high) of the block at each position. */
  readonly hashes: Uint32Array
  readonly pages: Int32Array
  /** One bit for each position: whether the anchor table names that block. */
  readonly anchored: Int32Array
  /** One bit for each position: whether a run begins after that block, elsewhere. */
  readonly branched: Int32Array
  readonly #pageCapacity: number
  #pageTop = 0
  #pageFree = -1
  #pagesLive = 0

  constructor(blocksMax: number) {
    this.#pageCapacity = Math.max(4, Math.ceil(blocksMax / PAGE_BLOCKS))
    this.hashes = new Uint32Array(2 * PAGE_BLOCKS * this.#pageCapacity)
    this.pages = new Int32Array(PAGE_STRIDE * this.#pageCapacity)
    this.anchored = new Int32Array((PAGE_BLOCKS * this.#pageCapacity) >> 5)
    this.branched = new Int32Array((PAGE_BLOCKS * this.#pageCapacity) >> 5)
  }

  get pagesAvailable(): number {
    return this.#pageCapacity - this.#pagesLive
  }

  get pagesLive(): number {
    return this.#pagesLive
  }

  /** Memory that has been touched. */
  get bytes(): number {
    return this.#pageTop * (8 * PAGE_BLOCKS + PAGE_BLOCKS / 4 + 4 * PAGE_STRIDE)
  }

  /** A page for `run`; the caller has checked `pagesAvailable`. */
  take(run: number, index: number): number {
    const { pages } = this
    let page = this.#pageFree
    if (page >= 0) this.#pageFree = pages[page * PAGE_STRIDE + NEXT] as number
    else page = this.#pageTop++
    const record = page * PAGE_STRIDE
    pages[record + RUN] = run
    pages[record + NEXT] = -1
    pages[record + PREVIOUS] = -1
    pages[record + INDEX] = index
    this.#pagesLive += 1
    return page
  }

  /** The page must name no anchors any more. */
  release(page: number): void {
    const record = page * PAGE_STRIDE
    this.pages[record + RUN] = -1
    this.pages[record + NEXT] = this.#pageFree
    this.#pageFree = page
    this.#pagesLive -= 1
  }

  /** Offset within its run of the block at a position. */
  offsetOf(position: number): number {
    const page = position >> PAGE_BITS
    return (
      ((this.pages[page * PAGE_STRIDE + INDEX] as number) << PAGE_BITS) + (position & PAGE_MASK)
    )
  }
}
