/**
 * Where the hashes of blocks live: pages of 64 blocks (512 bytes) in one typed array.
 *
 * Owns: sequence hashes by position, pages and their links, and two marks of each block.
 * A position is `page * 64 + slot`. The arrays are reserved once; the operating system commits memory when it is first
 * written, so a large bound costs nothing, and nothing is ever copied because of growth. Freed pages are reused last
 * in first out, which hands a new run neighbouring pages. Smaller pages defeat the processor's prefetching.
 */
export const PAGE_BITS = 6
export const PAGE_BLOCKS = 1 << PAGE_BITS
export const PAGE_MASK = PAGE_BLOCKS - 1

/** Fields of a page record. `INDEX` is the number of the page within its run, from offset 0 on. */
export const PAGE_STRIDE = 4
const RUN = 0
export const NEXT = 1
export const PREVIOUS = 2
export const INDEX = 3

/** Marks of 32 blocks, one word each: whether the anchor table names a block, whether a run begins after it. */
export const MARK_STRIDE = 2
export const ANCHORED = 0
export const BRANCHED = 1

/** So many touched pages are worth a new reservation: about half a megabyte. */
const CLEARED_PAGES_MIN = 1024

const PAGE_BYTES = 8 * PAGE_BLOCKS + (MARK_STRIDE * PAGE_BLOCKS) / 8 + 4 * PAGE_STRIDE

export class BlockArena {
  /** (low, high) of the block at each position. */
  hashes = new Uint32Array(0)
  /** The same memory, for what compares: a signed word is never boxed. */
  words = new Int32Array(0)
  pages = new Int32Array(0)
  /** Side by side, because whoever leaves a run asks for both. */
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

  /** Gives all memory back, when no page is in use and there is much of it. */
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

  /** Memory that has been touched. */
  get bytes(): number {
    return this.#pageTop * PAGE_BYTES
  }

  /** Of that, what no run uses. */
  get bytesFree(): number {
    return (this.#pageTop - this.#pagesLive) * PAGE_BYTES
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

  /** The page must have no marks any more. */
  release(page: number): void {
    const record = page * PAGE_STRIDE
    this.pages[record + RUN] = -1
    this.pages[record + NEXT] = this.#pageFree
    this.#pageFree = page
    this.#pagesLive -= 1
  }

  /** The run that the block at a position belongs to. */
  runOf(position: number): number {
    return this.pages[(position >> PAGE_BITS) * PAGE_STRIDE + RUN] as number
  }

  /** Offset within its run of the block at a position. */
  offsetOf(position: number): number {
    const index = this.pages[(position >> PAGE_BITS) * PAGE_STRIDE + INDEX] as number
    return (index << PAGE_BITS) + (position & PAGE_MASK)
  }

  /** Whether any block of a page has any mark. */
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

  /** Sets a mark; false when it was set. */
  mark(position: number, mark: number): boolean {
    const { marks } = this
    const at = MARK_STRIDE * (position >> 5) + mark
    const word = marks[at] as number
    const bit = 1 << (position & 31)
    if ((word & bit) !== 0) return false
    marks[at] = word | bit
    return true
  }

  /** Takes a mark away; false when there was none. */
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
