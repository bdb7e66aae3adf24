/**
 * Loose blocks by their hash: an extendible hash table whose rows are the blocks themselves.
 *
 *   directory   first bits of a hash ─▶ number of a segment
 *   segment     | passed by | low high word | × 5 | …   buckets of one cache line; a word of 0: no block
 *               | bits |                                some for each row: of most other hashes they say that they are not here
 *
 * Whoever looks for a block waits for one access to memory: all that is known of it lies in its row. A bucket counts the
 * rows that found it full and went on to the next one, so a search ends early and a block that goes leaves nothing behind. A
 * full segment becomes two and two empty ones become one: no change moves more than 4,900 rows, the table is never
 * copied, and it shrinks as blocks go. Segments of different first bits have different sizes, so that they do not all become two at the same
 * time: a table of any size is two thirds full.
 *
 * `lookup` leaves the table at a block: what is said of "the block found" is good until the next change.
 */
import { BUCKET, BUCKET_BITS, ROW, ROWS, WORD } from './loose-rows.ts'
import { clear, homeOf, markOf, put, setMark, spreadHash, wordsFor } from './loose-rows.ts'

/** First bits of a hash that say how large the segments are in the end: 512 to 981 buckets. */
const SIZE_BITS = 4
const BUCKETS_LAST = 512
/** So many times a segment doubles before it becomes two. */
const DOUBLINGS = 5
/** Most rows in use, of 100. At least a sixth are, but for the smallest segment, or two fifths after many have gone at once. */
const FULL = 88
const SPARSE = 16
const TIDY = 40
/** The bits of a segment are made anew when so many times its rows have been added. */
const STALE = 2
const DEPTH_MAX = 16
/** Segments that are kept for the next one of their size. */
const SPARE_MAX = 2
const NONE = new Int32Array(0)

/** Buckets of a segment that is about to become two, by the first bits of its hashes: neighbours are far from each other. */
function lastSize(hash: number): number {
  const first = hash >>> (32 - SIZE_BITS)
  const place = ((first & 1) << 3) | ((first & 2) << 1) | ((first & 4) >> 1) | (first >> 3)
  return Math.floor(BUCKETS_LAST * 2 ** (place / (1 << SIZE_BITS)))
}

export class LooseTable {
  /** By the first bits of a hash: the number of its segment. */
  #directory = new Int32Array(1 << SIZE_BITS)
  #shift = 32 - SIZE_BITS
  readonly #segments: Int32Array[] = []
  /** By segment: buckets, rows in use, bits of the directory that are its own, blocks added since its bits were made. */
  #buckets = new Int32Array(16)
  #live = new Int32Array(16)
  #depths = new Int32Array(16)
  #added = new Int32Array(16)
  readonly #free: number[] = []
  readonly #spare: Int32Array[] = []
  #bytes = 0
  count = 0
  /** Where `lookup` has found a block, and where the bucket of its hash begins (-1: not known). */
  #rows: Int32Array = NONE
  #at = 0
  #home = 0
  #number = 0

  constructor() {
    for (let first = 0; first < 1 << SIZE_BITS; first++) {
      const buckets = lastSize(first << (32 - SIZE_BITS)) >> DOUBLINGS
      this.#directory[first] = this.#makeSegment(buckets, SIZE_BITS)
    }
  }

  get bytes(): number {
    return this.#bytes + this.#directory.byteLength + 16 * this.#segments.length
  }

  /** Segments 0 .. top-1 exist or have been given back. */
  get top(): number {
    return this.#segments.length
  }

  /** Rows of a segment, 0 when it has been given back. */
  rowsOf(segment: number): number {
    return ROWS * (this.#buckets[segment] as number)
  }

  /** Finds the block with a hash (signed halves); false: there is none. */
  lookup(low: number, high: number): boolean {
    const hash = spreadHash(low, high)
    const number = this.#directory[hash >>> this.#shift] as number
    const rows = this.#segments[number] as Int32Array
    const buckets = this.#buckets[number] as number
    const home = homeOf(hash, buckets)
    for (let bucket = home; ;) {
      for (let k = bucket + 1; k < bucket + BUCKET; k += ROW) {
        if (rows[k] === low && rows[k + 1] === high && rows[k + WORD] !== 0) {
          this.#rows = rows
          this.#at = k
          this.#home = home
          this.#number = number
          return true
        }
      }
      if (rows[bucket] === 0) return false
      bucket += BUCKET
      if (bucket === buckets << BUCKET_BITS) bucket = 0
      // In a small segment each bucket may have been passed by some row.
      if (bucket === home) return false
    }
  }

  /** Goes to a row of a segment; false: it is empty. */
  goTo(segment: number, row: number): boolean {
    const rows = this.#segments[segment] as Int32Array
    this.#rows = rows
    this.#at = BUCKET * Math.floor(row / ROWS) + ROW * (row % ROWS) + 1
    this.#home = -1
    this.#number = segment
    return rows[this.#at + WORD] !== 0
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
    const hash = spreadHash(low, high)
    const number = this.#directory[hash >>> this.#shift] as number
    const buckets = this.#buckets[number] as number
    const mark = markOf(hash, buckets)
    const rows = this.#segments[number] as Int32Array
    const word = rows[(buckets << BUCKET_BITS) + (mark >>> 5)] as number
    return (word & (1 << (mark & 31))) !== 0
  }

  /** Reads the bucket that a search for this hash (signed halves) begins with, so that it lies in the cache. */
  touch(low: number, high: number): number {
    const hash = spreadHash(low, high)
    const number = this.#directory[hash >>> this.#shift] as number
    const rows = this.#segments[number] as Int32Array
    return rows[homeOf(hash, this.#buckets[number] as number)] as number
  }

  /** Adds a block (signed halves) that is not here. */
  add(low: number, high: number, word: number): void {
    const hash = spreadHash(low, high)
    let number = this.#directory[hash >>> this.#shift] as number
    let buckets = this.#buckets[number] as number
    while (100 * (this.#live[number] as number) >= FULL * ROWS * buckets) {
      this.#makeSpace(number, hash)
      number = this.#directory[hash >>> this.#shift] as number
      buckets = this.#buckets[number] as number
    }
    put(this.#segments[number] as Int32Array, buckets, hash, low, high, word)
    this.#live[number] = (this.#live[number] as number) + 1
    this.count += 1
    const added = (this.#added[number] as number) + 1
    this.#added[number] = added
    if (added > STALE * ROWS * buckets) this.#makeMarks(number)
  }

  /** Takes the block found away. The segment may be another one. */
  delete(): void {
    const number = this.#number
    const { low, high } = this
    this.deleteOnly()
    const rows = ROWS * (this.#buckets[number] as number)
    if (100 * (this.#live[number] as number) < SPARSE * rows) {
      this.#shrink(number, spreadHash(low, high))
    }
  }

  /** As `delete`, for a walk over a segment: no other row changes its place. */
  deleteOnly(): void {
    const rows = this.#rows
    const at = this.#at
    const buckets = this.#buckets[this.#number] as number
    let home = this.#home
    if (home < 0) home = homeOf(spreadHash(this.low, this.high), buckets)
    clear(rows, at, home, buckets << BUCKET_BITS)
    this.#live[this.#number] = (this.#live[this.#number] as number) - 1
    this.count -= 1
  }

  /** Gives memory back after `deleteOnly`, when a segment has some of it. */
  tidy(segment: number): void {
    const rows = this.rowsOf(segment)
    if (100 * (this.#live[segment] as number) >= TIDY * rows) return
    for (let row = 0; row < rows; row++) {
      if (!this.goTo(segment, row)) continue
      this.#shrink(segment, spreadHash(this.low, this.high))
      return
    }
  }

  #makeSpace(number: number, hash: number): void {
    const buckets = this.#buckets[number] as number
    const depth = this.#depths[number] as number
    if (buckets < BUCKETS_LAST || depth === DEPTH_MAX) {
      const last = lastSize(hash)
      let next = last >> DOUBLINGS
      // Halves are rounded down: the next size is that of a segment that was halved less often.
      for (let left = DOUBLINGS; next <= buckets; left--)
        next = left > 0 ? last >> (left - 1) : 2 * next
      this.#replace([number], hash, depth, next)
    } else this.#split(number, hash, depth)
  }

  #shrink(number: number, hash: number): void {
    const buckets = this.#buckets[number] as number
    const depth = this.#depths[number] as number
    const live = this.#live[number] as number
    const last = lastSize(hash)
    const buddy = this.#directory[(hash ^ (1 << (32 - depth))) >>> this.#shift] as number
    const both = live + (this.#live[buddy] as number)
    const isPair = depth > SIZE_BITS && this.#depths[buddy] === depth
    if (isPair && 2 * both < ROWS * last) {
      this.#unite(number, buddy, hash, depth - 1)
      return
    }
    let size = last >> DOUBLINGS
    for (let left = DOUBLINGS; 4 * ROWS * size < 5 * live && left > 0; left--) {
      size = last >> (left - 1)
    }
    if (size < buckets) this.#replace([number], hash, depth, size)
  }

  /** A segment takes the rows of another one; they share the first `depth` bits of a hash. */
  #unite(number: number, buddy: number, hash: number, depth: number): void {
    const last = lastSize(hash)
    if (this.#buckets[number] !== last) {
      this.#replace([number, buddy], hash, depth, last)
      return
    }
    this.#moveAll(buddy, number)
    this.#release(buddy)
    this.#depths[number] = depth
    this.#enter(number, hash, depth)
  }

  /** One new segment takes the place of these, which share the first `depth` bits of a hash. */
  #replace(old: readonly number[], hash: number, depth: number, buckets: number): void {
    const number = this.#makeSegment(buckets, depth)
    for (const before of old) {
      this.#moveAll(before, number)
      this.#release(before)
    }
    this.#enter(number, hash, depth)
  }

  #split(number: number, hash: number, depth: number): void {
    if (depth === 32 - this.#shift) {
      const before = this.#directory
      this.#directory = new Int32Array(2 * before.length).map((_, i) => before[i >> 1] as number)
      this.#shift -= 1
    }
    const buckets = this.#buckets[number] as number
    const other = this.#makeSegment(buckets, depth + 1)
    const bit = 31 - depth
    // Those that stay are where they would be put: the home of a hash depends on its last bits.
    this.#moveSome(number, other, bit)
    this.#depths[number] = depth + 1
    // Its bits are those of twice as many blocks.
    this.#added[number] = ROWS * buckets
    this.#enter(number, hash & ~(1 << bit), depth + 1)
    this.#enter(other, hash | (1 << bit), depth + 1)
  }

  /** Moves the rows of a segment whose hash has a bit to another one of its size. */
  #moveSome(from: number, to: number, bit: number): void {
    const rows = this.#segments[from] as Int32Array
    const target = this.#segments[to] as Int32Array
    const buckets = this.#buckets[to] as number
    const end = BUCKET * buckets
    let moved = 0
    for (let bucket = 0; bucket < end; bucket += BUCKET) {
      for (let k = bucket + 1; k < bucket + BUCKET; k += ROW) {
        const low = rows[k] as number
        const high = rows[k + 1] as number
        const hash = spreadHash(low, high)
        if (((hash >>> bit) & 1) === 0) continue
        const word = rows[k + WORD] as number
        if (word === 0) continue
        put(target, buckets, hash, low, high, word)
        clear(rows, k, homeOf(hash, buckets), end)
        moved += 1
      }
    }
    this.#live[from] = (this.#live[from] as number) - moved
    this.#live[to] = (this.#live[to] as number) + moved
  }

  /** Moves all rows of a segment to another one. */
  #moveAll(from: number, to: number): void {
    const rows = this.#segments[from] as Int32Array
    const target = this.#segments[to] as Int32Array
    const buckets = this.#buckets[to] as number
    const end = BUCKET * (this.#buckets[from] as number)
    for (let bucket = 0; bucket < end; bucket += BUCKET) {
      for (let k = bucket + 1; k < bucket + BUCKET; k += ROW) {
        const word = rows[k + WORD] as number
        if (word === 0) continue
        const low = rows[k] as number
        const high = rows[k + 1] as number
        put(target, buckets, spreadHash(low, high), low, high, word)
      }
    }
    this.#live[to] = (this.#live[to] as number) + (this.#live[from] as number)
  }

  /** Forgets the bits of blocks that have gone. */
  #makeMarks(number: number): void {
    const rows = this.#segments[number] as Int32Array
    const buckets = this.#buckets[number] as number
    rows.fill(0, BUCKET * buckets)
    for (let row = 0; row < ROWS * buckets; row++) {
      if (this.goTo(number, row)) setMark(rows, buckets, spreadHash(this.low, this.high))
    }
    this.#added[number] = 0
  }

  #makeSegment(buckets: number, depth: number): number {
    const number = this.#free.pop() ?? this.#segments.length
    if (number === this.#buckets.length) {
      this.#buckets = grown(this.#buckets)
      this.#live = grown(this.#live)
      this.#depths = grown(this.#depths)
      this.#added = grown(this.#added)
    }
    const words = wordsFor(buckets)
    const spare = this.#spare.findIndex((segment) => segment.length === words)
    let segment: Int32Array
    if (spare < 0) {
      segment = new Int32Array(words)
      this.#bytes += segment.byteLength
    } else {
      segment = this.#spare.splice(spare, 1)[0] as Int32Array
      segment.fill(0)
    }
    this.#segments[number] = segment
    this.#buckets[number] = buckets
    this.#live[number] = 0
    this.#added[number] = 0
    this.#depths[number] = depth
    return number
  }

  #release(number: number): void {
    const segment = this.#segments[number] as Int32Array
    this.#spare.push(segment)
    if (this.#spare.length > SPARE_MAX) {
      this.#bytes -= (this.#spare.shift() as Int32Array).byteLength
    }
    this.#segments[number] = NONE
    this.#buckets[number] = 0
    this.#live[number] = 0
    this.#free.push(number)
  }

  /** The directory names a segment for all hashes with the same first `depth` bits. */
  #enter(number: number, hash: number, depth: number): void {
    const spare = 32 - this.#shift - depth
    const first = (hash >>> (32 - depth)) << spare
    this.#directory.fill(number, first, first + (1 << spare))
  }
}

function grown(words: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const twice = new Int32Array(2 * words.length)
  twice.set(words)
  return twice
}
