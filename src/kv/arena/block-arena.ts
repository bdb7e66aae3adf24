/**
 * The memory of block hashes: pages of 64 blocks (512 bytes) in one typed array.
 *
 *   position = page * 64 + slot
 *   hashes   | low high | low high | … 64 per page |
 *   pages    | run or shares | next | previous | index in the run |      one record per page
 *   marks    | anchored: 1 bit per block | branched: 1 bit per block |   one word each per 32 blocks
 *
 * Owns hashes by position, pages and their links, and the two marks of each block. The arrays are reserved once; the
 * operating system provides memory only when it is first written, so a large limit costs nothing and nothing is
 * copied when the index grows. Freed pages are reused last in, first out, which gives a new run neighbouring pages.
 * Smaller pages would defeat the processor's prefetching of long runs. Short runs have a share of a page
 * (`PageShares`); their offsets begin at the slot of the share, so that offset and position are related as in any other
 * page. Pages with a free share are linked by their number of shares.
 */
import { PageShares, shareRoom, sharesOf, SHARES_MAX } from './page-shares.ts'

export const PAGE_BITS = 6
export const PAGE_BLOCKS = 1 << PAGE_BITS
export const PAGE_MASK = PAGE_BLOCKS - 1

/**
 * Fields of a page record. `INDEX` is the number of the page within its run, counted from offset 0; it is 0 for a page of
 * shares, whose `RUN` is a word of `PageShares`.
 */
export const PAGE_STRIDE = 4
const RUN = 0
export const NEXT = 1
export const PREVIOUS = 2
export const INDEX = 3
const FREE = -1

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
  readonly #shares = new PageShares()
  /** By number of shares in a page: the first page that has a free one. */
  readonly #open = new Int32Array(SHARES_MAX + 1).fill(-1)

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

  /**
   * Releases all memory, if no page is in use and there is much of it. The next page reserves it again: V8 collects
   * garbage when so large an array is created, which takes milliseconds.
   */
  clear(): void {
    if (this.#pagesLive > 0 || this.#pageTop < CLEARED_PAGES_MIN) return
    this.hashes = new Uint32Array(0)
    this.words = new Int32Array(0)
    this.pages = new Int32Array(0)
    this.marks = new Int32Array(0)
    this.#pageTop = 0
    this.#pageFree = -1
  }

  get pagesAvailable(): number {
    return this.pageCapacity - this.#pagesLive
  }

  get pagesLive(): number {
    return this.#pagesLive
  }

  /** Positions from here on have never been used since all memory was released. */
  get end(): number {
    return this.#pageTop << PAGE_BITS
  }

  /** Touched memory in bytes. */
  get bytes(): number {
    return this.#pageTop * PAGE_BYTES + this.#shares.bytes
  }

  /** Touched memory that no run uses. */
  get bytesFree(): number {
    const inShares = (PAGE_BYTES / PAGE_BLOCKS) * this.#shares.blocksFree
    return (this.#pageTop - this.#pagesLive) * PAGE_BYTES + inShares
  }

  /** Allocates a page for `run`; the caller has checked `pagesAvailable`. */
  take(run: number, index: number): number {
    if (this.pages.length === 0) this.#reserve()
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
    this.pages[record + RUN] = FREE
    this.pages[record + NEXT] = this.#pageFree
    this.#pageFree = page
    this.#pagesLive -= 1
  }

  /** Allocates a share of a page for `run`; returns its first position. */
  takeShare(run: number, shares: number): number {
    let page = this.#open[shares] as number
    if (page < 0) {
      page = this.take(this.#shares.create(shares), 0)
      this.#link(page, shares)
    }
    const word = this.pages[page * PAGE_STRIDE + RUN] as number
    const slot = this.#shares.freeSlot(word)
    this.#shares.give(word, slot, run)
    if (this.#shares.freeSlot(word) < 0) this.#unlink(page, shares)
    return (page << PAGE_BITS) | slot
  }

  /** Frees the share with a position, and its page if no share is in use; it must have no marks. */
  releaseShare(position: number): void {
    const page = position >> PAGE_BITS
    const word = this.pages[page * PAGE_STRIDE + RUN] as number
    if (this.#shares.freeSlot(word) < 0) this.#link(page, sharesOf(word))
    this.#shares.give(word, position, FREE)
    if (!this.#shares.isUnused(word)) return
    this.#unlink(page, sharesOf(word))
    this.#shares.drop(word)
    this.release(page)
  }

  #link(page: number, shares: number): void {
    const { pages } = this
    const next = this.#open[shares] as number
    pages[page * PAGE_STRIDE + NEXT] = next
    pages[page * PAGE_STRIDE + PREVIOUS] = -1
    if (next >= 0) pages[next * PAGE_STRIDE + PREVIOUS] = page
    this.#open[shares] = page
  }

  #unlink(page: number, shares: number): void {
    const { pages } = this
    const next = pages[page * PAGE_STRIDE + NEXT] as number
    const previous = pages[page * PAGE_STRIDE + PREVIOUS] as number
    if (next >= 0) pages[next * PAGE_STRIDE + PREVIOUS] = previous
    if (previous >= 0) pages[previous * PAGE_STRIDE + NEXT] = next
    else this.#open[shares] = next
  }

  isShared(page: number): boolean {
    return (this.pages[page * PAGE_STRIDE + RUN] as number) < FREE
  }

  /** Memory of a page in bytes, or of each of its shares. */
  partBytes(page: number): number {
    const word = this.pages[page * PAGE_STRIDE + RUN] as number
    return word < FREE ? PAGE_BYTES / sharesOf(word) : PAGE_BYTES
  }

  /** Number of blocks that fit into the page or share after a position. */
  roomAfter(position: number): number {
    const word = this.pages[(position >> PAGE_BITS) * PAGE_STRIDE + RUN] as number
    return word < FREE ? shareRoom(word, position) : PAGE_MASK - (position & PAGE_MASK)
  }

  /** The run of the block at a position. */
  runOf(position: number): number {
    const word = this.pages[(position >> PAGE_BITS) * PAGE_STRIDE + RUN] as number
    return word < FREE ? this.#shares.runAt(word, position) : word
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

  /** Whether a block has any mark. */
  hasMark(position: number): boolean {
    const at = MARK_STRIDE * (position >> 5)
    const word = (this.marks[at] as number) | (this.marks[at + 1] as number)
    return (word & (1 << (position & 31))) !== 0
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
