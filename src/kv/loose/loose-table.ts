/**
 * The hash table of loose blocks. A row is the block itself: sequence hash (2 words) and a word about it
 * (`loose-word.ts`).
 *
 * A lookup waits for one memory access, because everything known about a block is in its row. Queries about several
 * blocks avoid branches that depend on one of them, so that their memory accesses overlap. Owns lookups and the
 * cursor, "the block found", which is valid until the next change. The memory is managed by `LooseSegments`.
 */
import { BUCKET, BUCKET_BITS, ROW, ROWS, WORD } from './loose-rows.ts'
import { candidatesOf, clear, homeOf, isRow, markOf, markWordOf, mayBeIn } from './loose-rows.ts'
import { printOf, rowOf, seek, spreadHash, withoutPrint } from './loose-rows.ts'
import { LooseSegments } from './loose-segments.ts'

const NONE = new Int32Array(0)
/** Hashes that are prefetched at once: more would evict each other from the L1 cache. */
export const AHEAD_MAX = 32
export class LooseTable {
  #segments = new LooseSegments()
  count = 0
  /** The cursor set by `lookup`, and the start of the home bucket of its hash (-1: not known). */
  #rows: Int32Array = NONE
  #at = 0
  #home = 0
  #number = 0
  /** Depends on all that is prefetched, so that the compiler cannot remove the reads. */
  prefetched = 0
  /** Scratch of `prefetch`: spread hashes, their segments, and words of these. */
  readonly #hashes = new Int32Array(AHEAD_MAX)
  readonly #numbers = new Int32Array(AHEAD_MAX)
  readonly #places = new Int32Array(AHEAD_MAX)

  get bytes(): number {
    return this.#segments.bytes
  }

  /** Removes everything and releases the memory. */
  clear(): void {
    this.#segments = new LooseSegments()
    this.#rows = NONE
    this.count = 0
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
    const at = seek(rows, buckets, hash, low, high)
    if (at < 0) return false
    this.#rows = rows
    this.#at = at
    this.#home = homeOf(hash, buckets)
    this.#number = number
    return true
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
    const word = rows[markWordOf(hash, buckets)] as number
    return (word & (1 << (mark & 31))) !== 0
  }

  /**
   * Prefetches the buckets of hashes `from` .. `to` (at most 32, or they evict each other from the CPU cache), so that
   * the memory accesses overlap and the next lookups hit the cache. Only reads: whatever depended on a value would fill
   * the processor's queue, so that it starts fewer reads at a time.
   */
  prefetch(hashes: Uint32Array, from: number, to: number): void {
    this.#read(this.#locate(hashes, from, to, false))
  }

  /** Like `prefetch`, for the words of the filters that are changed when the blocks are added. */
  prefetchMarks(hashes: Uint32Array, from: number, to: number): void {
    this.#read(this.#locate(hashes, from, to, true))
  }

  /** Writes where the buckets or marks of the hashes are to the scratch arrays; returns how many. */
  #locate(hashes: Uint32Array, from: number, to: number, areMarks: boolean): number {
    const { directory, shift, buckets } = this.#segments
    const spread = this.#hashes
    const numbers = this.#numbers
    const places = this.#places
    const count = to - from
    for (let i = 0, k = 2 * from; i < count; i++, k += 2) {
      const hash = spreadHash((hashes[k] as number) | 0, (hashes[k + 1] as number) | 0)
      const number = directory[hash >>> shift] as number
      const size = buckets[number] as number
      spread[i] = hash
      numbers[i] = number
      places[i] = areMarks ? markWordOf(hash, size) : homeOf(hash, size)
    }
    return count
  }

  /** Reads words of segments, as many as are in the scratch arrays. */
  #read(count: number): void {
    const { rows } = this.#segments
    const numbers = this.#numbers
    const places = this.#places
    let sum = 0
    for (let i = 0; i < count; i++) {
      sum ^= (rows[numbers[i] as number] as Int32Array)[places[i] as number] as number
    }
    this.prefetched = sum
  }

  /** A bit per hash of `from` .. `to` (at most 32), lowest first, that says whether the block may be present. */
  suspects(hashes: Uint32Array, from: number, to: number): number {
    const { directory, shift, rows: all, buckets } = this.#segments
    let suspects = 0
    for (let i = to - 1; i >= from; i--) {
      const hash = spreadHash((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0)
      const number = directory[hash >>> shift] as number
      const rows = all[number] as Int32Array
      const header = rows[homeOf(hash, buckets[number] as number)] as number
      suspects = (suspects << 1) | mayBeIn(header, printOf(hash))
    }
    return suspects
  }

  /** Index of the first hash of `from` .. `to` that is absent, or whose word differs from `word` in the bits of `mask`. */
  walk(hashes: Uint32Array, from: number, to: number, word: number, mask: number): number {
    const { directory, shift, rows: all, buckets } = this.#segments
    for (let i = from; i < to; i++) {
      const low = (hashes[2 * i] as number) | 0
      const high = (hashes[2 * i + 1] as number) | 0
      const hash = spreadHash(low, high)
      const number = directory[hash >>> shift] as number
      const rows = all[number] as Int32Array
      const size = buckets[number] as number
      const bucket = homeOf(hash, size)
      // Nearly all blocks are in their home bucket.
      const candidates = candidatesOf(rows[bucket] as number, printOf(hash))
      let k = candidates === 0 ? -1 : rowOf(bucket, candidates)
      if (k < 0 || rows[k] !== low || rows[k + 1] !== high) k = seek(rows, size, hash, low, high)
      if (k < 0 || (((rows[(k + 2) | 0] as number) ^ word) & mask) !== 0) return i
    }
    return to
  }

  /** Inserts a block (signed halves) that is not present. */
  add(low: number, high: number, word: number): void {
    this.#segments.add(spreadHash(low, high), low, high, word)
    this.count += 1
  }

  /** Inserts the absent ones of blocks `from` .. `to` (at most 32); returns a bit per present block, lowest first. */
  addAbsent(hashes: Uint32Array, from: number, to: number, word: number): number {
    const segments = this.#segments
    const spread = this.#hashes
    this.prefetch(hashes, from, to)
    let present = 0
    let added = 0
    for (let i = 0, k = 2 * from; i < to - from; i++, k += 2) {
      const low = (hashes[k] as number) | 0
      const high = (hashes[k + 1] as number) | 0
      if (segments.addAbsent(spread[i] as number, low, high, word)) added += 1
      else present |= 1 << i
    }
    this.count += added
    return present
  }

  /** Removes the block found. Its segment may be replaced. */
  delete(): void {
    const number = this.#number
    this.deleteOnly()
    if (this.#segments.isSparse(number)) this.#segments.shrink(number)
  }

  /**
   * Fast path of `lookup` and `delete` for a block in its home bucket and a segment that need not shrink. The bits of
   * its word in `mask` must equal those of `word`. Returns the block's word, or 0 if nothing was changed.
   */
  deleteNear(low: number, high: number, word: number, mask: number): number {
    const segments = this.#segments
    const hash = spreadHash(low, high)
    const number = segments.directory[hash >>> segments.shift] as number
    const surplus = segments.surplus[number] as number
    if (surplus <= 0) return 0
    const rows = segments.rows[number] as Int32Array
    const bucket = homeOf(hash, segments.buckets[number] as number)
    const header = rows[bucket] as number
    const candidates = candidatesOf(header, printOf(hash))
    if (candidates === 0) return 0
    const k = rowOf(bucket, candidates)
    const found = rows[(k + 2) | 0] as number
    const different = ((rows[k] as number) ^ low) | ((rows[(k + 1) | 0] as number) ^ high)
    if ((different | ((found ^ word) & mask)) !== 0) return 0
    rows[bucket] = withoutPrint(header, candidates)
    segments.surplus[number] = surplus - 1
    this.count -= 1
    return found
  }

  /** Like `delete`, during an iteration over a segment: no other row moves. */
  deleteOnly(): void {
    const { buckets, surplus } = this.#segments
    const size = buckets[this.#number] as number
    let home = this.#home
    if (home < 0) home = homeOf(spreadHash(this.low, this.high), size)
    clear(this.#rows, this.#at, home, size << BUCKET_BITS)
    surplus[this.#number] = (surplus[this.#number] as number) - 1
    this.count -= 1
  }

  /** After `deleteOnly`: shrinks the segment if it has become sparse. */
  tidy(segment: number): void {
    this.#segments.tidy(segment)
  }
}
