/**
 * Loose blocks by their hash: a hash table whose rows are the blocks themselves.
 *
 * Whoever looks for a block waits for one access to memory: all that is known of it lies in its row, and what is asked of
 * several blocks is asked without a branch that depends on one of them, so that their accesses overlap.
 * Owns: looking up, and the place of "the block found"; `lookup` leaves the table at a block, and what is said of it is good
 * until the next change. The memory is that of `LooseSegments`.
 */
import { BUCKET, BUCKET_BITS, ROW, ROWS, WORD } from './loose-rows.ts'
import { candidatesOf, clear, cleared, hasPassed, homeOf, isRow, mayBeIn } from './loose-rows.ts'
import { markOf, printOf, rowOf, spreadHash } from './loose-rows.ts'
import { LooseSegments } from './loose-segments.ts'

const NONE = new Int32Array(0)

export class LooseTable {
  #segments = new LooseSegments()
  count = 0
  /** Where `lookup` has found a block, and where the bucket of its hash begins (-1: not known). */
  #rows: Int32Array = NONE
  #at = 0
  #home = 0
  #number = 0

  get bytes(): number {
    return this.#segments.bytes
  }

  /** Gives all memory back; nothing is in the table. */
  clear(): void {
    this.#segments = new LooseSegments()
    this.#rows = NONE
  }

  /** Segments 0 .. top-1 exist or have been given back. */
  get top(): number {
    return this.#segments.rows.length
  }

  /** Rows of a segment, 0 when it has been given back. */
  rowsOf(segment: number): number {
    return ROWS * (this.#segments.buckets[segment] as number)
  }

  /** Finds the block with a hash (signed halves); false: there is none. */
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
      // In a small segment each bucket may have been passed by some row.
      if (bucket === home) return false
    }
  }

  /** Goes to a row of a segment; false: it is empty. */
  goTo(segment: number, row: number): boolean {
    const rows = this.#segments.rows[segment] as Int32Array
    this.#rows = rows
    this.#at = BUCKET * Math.floor(row / ROWS) + ROW * (row % ROWS) + 1
    this.#home = -1
    this.#number = segment
    return isRow(rows, this.#at)
  }

  /** What is kept of the block found: a word that is not 0. */
  get word(): number {
    return this.#rows[this.#at + WORD] as number
  }

  set word(word: number) {
    this.#rows[this.#at + WORD] = word
  }

  /** The hash of the block found, signed halves. */
  get low(): number {
    return this.#rows[this.#at] as number
  }

  get high(): number {
    return this.#rows[this.#at + 1] as number
  }

  /** False: no block has this hash (signed halves), surely; less memory is read than by `lookup`. */
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
   * Reads the buckets of hashes `from` .. `to` (32 at most), so that their accesses to memory overlap and whoever asks for
   * them next finds them in the cache; a bit for each hash that may be here, the lowest for the first.
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
   * Up to which hash from `from` on blocks are in the buckets of their hashes, as nearly every one is, and the bits of their words
   * that `mask` names are these.
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

  /** Adds a block (signed halves) that is not here. */
  add(low: number, high: number, word: number): void {
    this.#segments.add(spreadHash(low, high), low, high, word)
    this.count += 1
  }

  /** Takes the block found away. The segment may be another one. */
  delete(): void {
    const number = this.#number
    const hash = spreadHash(this.low, this.high)
    this.deleteOnly()
    if (this.#segments.isSparse(number)) this.#segments.shrink(number, hash)
  }

  /**
   * As `lookup` and `delete`, for what nearly every block is: in the bucket of its hash, with no change of its segment. The
   * bits of its word that `mask` names must be these; returns the word, or 0 where nothing has changed.
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

  /** As `delete`, for a walk over a segment: no other row changes its place. */
  deleteOnly(): void {
    const { buckets, live } = this.#segments
    const size = buckets[this.#number] as number
    let home = this.#home
    if (home < 0) home = homeOf(spreadHash(this.low, this.high), size)
    clear(this.#rows, this.#at, home, size << BUCKET_BITS)
    live[this.#number] = (live[this.#number] as number) - 1
    this.count -= 1
  }

  /** Gives memory back after `deleteOnly`, when a segment has some of it. */
  tidy(segment: number): void {
    if (this.#segments.isTidy(segment)) return
    for (let row = 0; row < this.rowsOf(segment); row++) {
      if (!this.goTo(segment, row)) continue
      this.#segments.shrink(segment, spreadHash(this.low, this.high))
      return
    }
  }
}
