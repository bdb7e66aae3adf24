/**
 * The memory of block hashes: pages of 64 blocks (512 bytes) in one typed array.
 *
 *   position = page * 64 + slot
 *   hashes   | low high | low high | … 64 per page |
 *   pages    | run | next | previous | index in the run |                one record per page
 *   marks    | anchored: 1 bit per block | branched: 1 bit per block |   one word each per 32 blocks
 *
 * Owns hashes by position, pages and their links, and the two marks of each block. The arrays are reserved once; the
 * operating system provides memory only when it is first written, so a large limit costs nothing and nothing is
 * copied when the index grows. Freed pages are reused last in, first out, which gives a new run neighbouring pages.
 * Smaller pages would defeat the processor's prefetching.
 */
export const PAGE_BITS = 6
export const PAGE_BLOCKS = 1 << PAGE_BITS
export const PAGE_MASK = PAGE_BLOCKS - 1

/** Fields of a page record. `INDEX` is the number of the page within its run, counted from offset 0. */
export const PAGE_STRIDE = 4
const RUN = 0
export const NEXT = 1
export const PREVIOUS = 2
export const INDEX = 3

/** Marks of 32 blocks, one word each: the block is in the anchor table; a run begins after the block. */
export const MARK_STRIDE = 2
export const ANCHORED = 0
export const BRANCHED = 1

/** With fewer touched pages (about half a megabyte) the arrays are not reserved anew. */
const CLEARED_PAGES_MIN = 1024

const PAGE_BYTES = 8 * PAGE_BLOCKS + (MARK_STRIDE * PAGE_BLOCKS) / 8 + 4 * PAGE_STRIDE

export class BlockArena {
  /** (low, high) of the block at each position. */
  hashes = new Uint32Array(0)
  /** The same memory as signed words, for comparisons: V8 does not box them. */
  words = new Int32Array(0)
  pages = new Int32Array(0)
  /** Both marks side by side, because they are read together when a query leaves a run. */
  marks = new Int32Array(0)
  readonly pageCapacity: number
  #pageTop = 0
  #pageFree = -1
  #pagesLive = 0

  constructor(blocksMax: number) {
    this.pageCapacity = Math.max(4, Math.ceil(blocksMax / PAGE_BLOCKS))
    this.#reserve()
  }

  #reserve(): void {
    this.hashes = new Uint32Array(2 * PAGE_BLOCKS * this.pageCapacity)
    this.words = new Int32Array(this.hashes.buffer)
    this.pages = new Int32Array(PAGE_STRIDE * this.pageCapacity)
    this.marks = new Int32Array((MARK_STRIDE * PAGE_BLOCKS * this.pageCapacity) >> 5)
  }

  /** Releases all memory, if no page is in use and there is much of it. */
  clear(): void {
    if (this.#pagesLive > 0 || this.#pageTop < CLEARED_PAGES_MIN) return
    this.#reserve()
    this.#pageTop = 0
    this.#pageFree = -1
  }

  get pagesAvailable(): number {
    return this.pageCapacity - this.#pagesLive
  }

  get pagesLive(): number {
    return this.#pagesLive
  }

  /** Touched memory in bytes. */
  get bytes(): number {
    return this.#pageTop * PAGE_BYTES
  }

  /** Touched memory that no run uses. */
  get bytesFree(): number {
    return (this.#pageTop - this.#pagesLive) * PAGE_BYTES
  }

  /** Allocates a page for `run`; the caller has checked `pagesAvailable`. */
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

  /** Frees a page; it must have no marks. */
  release(page: number): void {
    const record = page * PAGE_STRIDE
    this.pages[record + RUN] = -1
    this.pages[record + NEXT] = this.#pageFree
    this.#pageFree = page
    this.#pagesLive -= 1
  }

  /** The run of the block at a position. */
  runOf(position: number): number {
    return this.pages[(position >> PAGE_BITS) * PAGE_STRIDE + RUN] as number
  }

  /** The offset within its run of the block at a position. */
  offsetOf(position: number): number {
    const index = this.pages[(position >> PAGE_BITS) * PAGE_STRIDE + INDEX] as number
    return (index << PAGE_BITS) + (position & PAGE_MASK)
  }

  /** Whether any block of a page has a mark. */
  hasMarks(page: number): boolean {
    const { marks } = this
    const at = (MARK_STRIDE * page * PAGE_BLOCKS) >> 5
    const first = (marks[at] as number) | (marks[at + 1] as number)
    return (first | (marks[at + 2] as number) | (marks[at + 3] as number)) !== 0
  }

  isMarked(position: number, mark: number): boolean {
    const word = this.marks[MARK_STRIDE * (position >> 5) + mark] as number
    return (word & (1 << (position & 31))) !== 0
  }

  /** Sets a mark; false if it was set. */
  mark(position: number, mark: number): boolean {
    const { marks } = this
    const at = MARK_STRIDE * (position >> 5) + mark
    const word = marks[at] as number
    const bit = 1 << (position & 31)
    if ((word & bit) !== 0) return false
    marks[at] = word | bit
    return true
  }

  /** Clears a mark; false if it was not set. */
  unmark(position: number, mark: number): boolean {
    const { marks } = this
    const at = MARK_STRIDE * (position >> 5) + mark
    const word = marks[at] as number
    const bit = 1 << (position & 31)
    if ((word & bit) === 0) return false
    marks[at] = word & ~bit
    return true
  }
}
