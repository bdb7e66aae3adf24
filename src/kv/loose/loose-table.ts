/**
 * The hash table of loose blocks. A row is the block itself: sequence hash (2 words) and a word about it
 * (`loose-word.ts`).
 *
 * A lookup waits for one memory access, because everything known about a block is in its row. Queries about several
 * blocks avoid branches that depend on one of them, so that their memory accesses overlap. Owns lookups and the
 * cursor, "the block found", which is valid until the next change. The memory is managed by `LooseSegments`.
 */
import { BUCKET, BUCKET_BITS, ROW, ROWS, WORD } from './loose-rows.ts'
import { candidatesOf, clear, cleared, hasPassed, homeOf, isRow, mayBeIn } from './loose-rows.ts'
import { markOf, printOf, rowOf, spreadHash } from './loose-rows.ts'
import { LooseSegments } from './loose-segments.ts'

const NONE = new Int32Array(0)

export class LooseTable {
  #segments = new LooseSegments()
  count = 0
  /** The cursor set by `lookup`, and the start of the home bucket of its hash (-1: not known). */
  #rows: Int32Array = NONE
  #at = 0
  #home = 0
  #number = 0

  get bytes(): number {
    return this.#segments.bytes
  }

  /** Removes everything and releases the memory. */
  clear(): void {
    this.#segments = new LooseSegments()
    this.#rows = NONE
  }

  /** Segments 0 .. top-1 exist or have been released. */
  get top(): number {
    return this.#segments.rows.length
  }

  /** Number of rows of a segment; 0 if it has been released. */
  rowsOf(segment: number): number {
    return ROWS * (this.#segments.buckets[segment] as number)
  }

  /** Moves the cursor to the block with a hash (signed halves); false if there is none. */
  lookup(low: number, high: number): boolean {
    const segments = this.#segments
    const hash = spreadHash(low, high)
    const number = segments.numberOf(hash)
    const rows = segments.rows[number] as Int32Array
    const buckets = segments.buckets[number] as number
    const home = homeOf(hash, buckets)
    const print = printOf(hash)
    for (let bucket = home; ;) {
      const header = rows[bucket] as number
      let candidates = candidatesOf(header, print)
      for (; candidates !== 0; candidates &= candidates - 1) {
        const k = rowOf(bucket, candidates)
        if (rows[k] !== low || rows[k + 1] !== high || !isRow(rows, k)) continue
        this.#rows = rows
        this.#at = k
        this.#home = home
        this.#number = number
        return true
      }
      if (!hasPassed(header)) return false
      bucket += BUCKET
      if (bucket === buckets << BUCKET_BITS) bucket = 0
      // In a small segment every bucket may have an overflow count above 0.
      if (bucket === home) return false
    }
  }

  /** Moves the cursor to a row of a segment; false if the row is empty. */
  goTo(segment: number, row: number): boolean {
    const rows = this.#segments.rows[segment] as Int32Array
    this.#rows = rows
    this.#at = BUCKET * Math.floor(row / ROWS) + ROW * (row % ROWS) + 1
    this.#home = -1
    this.#number = segment
    return isRow(rows, this.#at)
  }

  /** The word of the block found; never 0. */
  get word(): number {
    return this.#rows[this.#at + WORD] as number
  }

  set word(word: number) {
    this.#rows[this.#at + WORD] = word
  }

  /** The hash of the block found, as signed halves. */
  get low(): number {
    return this.#rows[this.#at] as number
  }

  get high(): number {
    return this.#rows[this.#at + 1] as number
  }

  /** False if there is certainly no block with this hash (signed halves); reads less memory than `lookup`. */
  mayHave(low: number, high: number): boolean {
    const segments = this.#segments
    const hash = spreadHash(low, high)
    const number = segments.numberOf(hash)
    const buckets = segments.buckets[number] as number
    const mark = markOf(hash, buckets)
    const rows = segments.rows[number] as Int32Array
    const word = rows[(buckets << BUCKET_BITS) + (mark >>> 5)] as number
    return (word & (1 << (mark & 31))) !== 0
  }

  /**
   * Prefetches the buckets of hashes `from` .. `to` (at most 32), so that the memory accesses overlap and the next
   * lookups hit the CPU cache. Returns a bit per hash, lowest first, that says whether the block may be present.
   */
  touch(hashes: Uint32Array, from: number, to: number): number {
    const segments = this.#segments
    let suspects = 0
    for (let i = to - 1; i >= from; i--) {
      const hash = spreadHash((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0)
      const number = segments.numberOf(hash)
      const rows = segments.rows[number] as Int32Array
      const header = rows[homeOf(hash, segments.buckets[number] as number)] as number
      suspects = (suspects << 1) | mayBeIn(header, printOf(hash))
    }
    return suspects
  }

  /**
   * Index of the first hash from `from` on that is not in its home bucket (nearly all blocks are), or whose word
   * differs from `word` in the bits of `mask`.
   */
  walkNear(hashes: Uint32Array, from: number, word: number, mask: number): number {
    const segments = this.#segments
    const { directory, shift, rows: all, buckets } = segments
    const count = hashes.length >> 1
    for (let i = from; i < count; i++) {
      const low = (hashes[2 * i] as number) | 0
      const high = (hashes[2 * i + 1] as number) | 0
      const hash = spreadHash(low, high)
      const number = directory[hash >>> shift] as number
      const rows = all[number] as Int32Array
      const bucket = homeOf(hash, buckets[number] as number)
      const candidates = candidatesOf(rows[bucket] as number, printOf(hash))
      if (candidates === 0) return i
      const k = rowOf(bucket, candidates)
      const found = rows[k + WORD] as number
      if (rows[k] !== low || rows[k + 1] !== high || ((found ^ word) & mask) !== 0) return i
    }
    return count
  }

  /** Inserts a block (signed halves) that is not present. */
  add(low: number, high: number, word: number): void {
    this.#segments.add(spreadHash(low, high), low, high, word)
    this.count += 1
  }

  /** Removes the block found. Its segment may be replaced. */
  delete(): void {
    const number = this.#number
    const hash = spreadHash(this.low, this.high)
    this.deleteOnly()
    if (this.#segments.isSparse(number)) this.#segments.shrink(number, hash)
  }

  /**
   * Fast path of `lookup` and `delete` for a block in its home bucket and a segment that need not shrink. The bits of
   * its word in `mask` must equal those of `word`. Returns the block's word, or 0 if nothing was changed.
   */
  deleteNear(low: number, high: number, word: number, mask: number): number {
    const segments = this.#segments
    const hash = spreadHash(low, high)
    const number = segments.numberOf(hash)
    if (segments.isSparse(number)) return 0
    const rows = segments.rows[number] as Int32Array
    const bucket = homeOf(hash, segments.buckets[number] as number)
    const header = rows[bucket] as number
    const candidates = candidatesOf(header, printOf(hash))
    if (candidates === 0) return 0
    const k = rowOf(bucket, candidates)
    const found = rows[k + WORD] as number
    if (rows[k] !== low || rows[k + 1] !== high || ((found ^ word) & mask) !== 0) return 0
    rows[bucket] = cleared(header, k)
    segments.live[number] = (segments.live[number] as number) - 1
    this.count -= 1
    return found
  }

  /** Like `delete`, during an iteration over a segment: no other row moves. */
  deleteOnly(): void {
    const { buckets, live } = this.#segments
    const size = buckets[this.#number] as number
    let home = this.#home
    if (home < 0) home = homeOf(spreadHash(this.low, this.high), size)
    clear(this.#rows, this.#at, home, size << BUCKET_BITS)
    live[this.#number] = (live[this.#number] as number) - 1
    this.count -= 1
  }

  /** After `deleteOnly`: shrinks the segment if it has become sparse. */
  tidy(segment: number): void {
    if (this.#segments.isTidy(segment)) return
    for (let row = 0; row < this.rowsOf(segment); row++) {
      if (!this.goTo(segment, row)) continue
      this.#segments.shrink(segment, spreadHash(this.low, this.high))
      return
    }
  }
}
