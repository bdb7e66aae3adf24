/**
 * The segments of `LooseTable`: the directory of an extendible hash table, and how segments grow, split, merge and
 * shrink.
 *
 *   directory   first bits of a hash ─▶ number of a segment
 *   segment     buckets of one cache line, and a filter bitmap (`loose-rows.ts`)
 *
 * A full segment is split into two, and two sparse ones are merged. Such a change moves at most 4,900 rows, the table
 * is never copied as a whole, and it shrinks as blocks are removed. Segments with different first bits have different
 * sizes, so that they do not all split at the same time: a table of any size is about two thirds full. The segments left
 * in an almost unused slab of their memory (`SlabMemory`), up to 4 MiB, move together.
 */
import { grown } from '../words/grown.ts'
import { BUCKET, ROW, ROWS } from './loose-rows.ts'
import { divide, isRow, moveRows, put, seek, setMark, spreadHash, wordsFor } from './loose-rows.ts'
import { SlabMemory } from '../words/slab-memory.ts'

/** Number of first bits of a hash that determine the final size of its segment: 512 to 981 buckets. */
const SIZE_BITS = 4
const BUCKETS_LAST = 512
/** A segment doubles this many times before it is split. */
const DOUBLINGS = 5
/**
 * Load in percent: `FULL` is the maximum; below `SPARSE` a segment shrinks (except the smallest), by merging with its
 * buddy if both together stay below `UNITED`; after a mass removal segments shrink below `TIDY`.
 */
const FULL = 88
const SPARSE = 32
const UNITED = 72
const TIDY = 40
/** The filter of a segment is rebuilt when this many times its rows have been added. */
const STALE = 2
const DEPTH_MAX = 16
const NONE = new Int32Array(0)

/**
 * Number of buckets at which a segment is split, from the first bits of its hashes; neighbours differ as much as
 * possible.
 */
function lastSize(hash: number): number {
  const first = hash >>> (32 - SIZE_BITS)
  const place = ((first & 1) << 3) | ((first & 2) << 1) | ((first & 4) >> 1) | (first >> 3)
  return Math.floor(BUCKETS_LAST * 2 ** (place / (1 << SIZE_BITS)))
}

/** Number of rows at which a segment is full, and at which it shrinks. */
const fullOf = (buckets: number): number => Math.ceil((FULL * ROWS * buckets) / 100)
const floorOf = (buckets: number): number => Math.floor((SPARSE * ROWS * buckets) / 100)

export class LooseSegments {
  /** By the first `32 - shift` bits of a hash: the number of its segment. */
  directory = new Int32Array(1 << SIZE_BITS)
  shift = 32 - SIZE_BITS
  /**
   * By segment number: its words, its number of buckets, how many rows it has above the number at which it shrinks, and
   * how many that is when it is full.
   */
  readonly rows: Int32Array[] = []
  buckets = new Int32Array(16)
  surplus = new Int32Array(16)
  #surplusMax = new Int32Array(16)
  /** By segment number: number of directory bits it depends on, and blocks added since its filter was built. */
  #depths = new Int32Array(16)
  /** By segment number: a hash with these first bits. */
  #firsts = new Int32Array(16)
  #added = new Int32Array(16)
  readonly #free: number[] = []
  readonly #memory = new SlabMemory()

  constructor() {
    for (let first = 0; first < 1 << SIZE_BITS; first++) {
      const buckets = lastSize(first << (32 - SIZE_BITS)) >> DOUBLINGS
      this.#enter(this.#makeSegment(buckets, SIZE_BITS), first << (32 - SIZE_BITS), SIZE_BITS)
    }
  }

  get bytes(): number {
    return this.#memory.bytes + this.directory.byteLength + 20 * this.rows.length
  }

  numberOf(hash: number): number {
    return this.directory[hash >>> this.shift] as number
  }

  /** Number of rows in use of a segment. */
  liveOf(number: number): number {
    return (this.surplus[number] as number) + floorOf(this.buckets[number] as number)
  }

  /** Inserts a row whose hash is not present. */
  add(hash: number, low: number, high: number, word: number): void {
    let number = this.numberOf(hash)
    let buckets = this.buckets[number] as number
    while ((this.surplus[number] as number) >= (this.#surplusMax[number] as number)) {
      this.#makeSpace(number, hash)
      number = this.numberOf(hash)
      buckets = this.buckets[number] as number
    }
    put(this.rows[number] as Int32Array, buckets, hash, low, high, word)
    this.surplus[number] = (this.surplus[number] as number) + 1
    const added = (this.#added[number] as number) + 1
    this.#added[number] = added
    if (added > STALE * ROWS * buckets) this.#makeMarks(number)
  }

  /** Like `add`, if there is no such row; returns whether it was inserted. */
  addAbsent(hash: number, low: number, high: number, word: number): boolean {
    const number = this.numberOf(hash)
    const rows = this.rows[number] as Int32Array
    if (seek(rows, this.buckets[number] as number, hash, low, high) >= 0) return false
    this.add(hash, low, high, word)
    return true
  }

  /** Whether a segment is sparse enough to shrink. */
  isSparse(number: number): boolean {
    return (this.surplus[number] as number) <= 0
  }

  /** After a mass removal: shrinks a segment, or merges it with its buddies, until it is full enough. */
  tidy(number: number): void {
    const hash = this.#firsts[number] as number
    while (!this.#isTidy(number) && this.shrink(number)) number = this.numberOf(hash)
  }

  #isTidy(number: number): boolean {
    return 100 * this.liveOf(number) >= TIDY * ROWS * (this.buckets[number] as number)
  }

  /** Shrinks a segment, or merges it with its buddy; false if neither is possible. */
  shrink(number: number): boolean {
    const hash = this.#firsts[number] as number
    const buckets = this.buckets[number] as number
    const depth = this.#depths[number] as number
    const live = this.liveOf(number)
    const last = lastSize(hash)
    const buddy = this.directory[(hash ^ (1 << (32 - depth))) >>> this.shift] as number
    const both = live + this.liveOf(buddy)
    const isPair = depth > SIZE_BITS && this.#depths[buddy] === depth
    if (isPair && 100 * both < UNITED * ROWS * last) {
      this.#unite(number, buddy, hash, depth - 1)
      return true
    }
    let size = last >> DOUBLINGS
    for (let left = DOUBLINGS; 4 * ROWS * size < 5 * live && left > 0; left--) {
      size = last >> (left - 1)
    }
    if (size >= buckets) return false
    this.#replace([number], hash, depth, size)
    return true
  }

  #makeSpace(number: number, hash: number): void {
    const buckets = this.buckets[number] as number
    const depth = this.#depths[number] as number
    const last = lastSize(hash)
    if (buckets >= BUCKETS_LAST && depth < DEPTH_MAX) {
      this.#split(number, hash, depth)
      return
    }
    let next = last >> DOUBLINGS
    // Sizes are halved with rounding down, so the next size is that of a segment halved fewer times.
    for (let left = DOUBLINGS; next <= buckets; left--)
      next = left > 0 ? last >> (left - 1) : 2 * next
    this.#replace([number], hash, depth, next)
  }

  /** Merges two segments that share the first `depth` bits of a hash. */
  #unite(number: number, buddy: number, hash: number, depth: number): void {
    const last = lastSize(hash)
    if (this.buckets[number] !== last) {
      this.#replace([number, buddy], hash, depth, last)
      return
    }
    this.#moveAll(buddy, number)
    this.#release(buddy)
    this.#depths[number] = depth
    this.#enter(number, hash, depth)
  }

  /** Replaces segments that share the first `depth` bits of a hash by a new one. */
  #replace(old: readonly number[], hash: number, depth: number, buckets: number): void {
    const number = this.#makeSegment(buckets, depth)
    for (const before of old) {
      this.#moveAll(before, number)
      this.#release(before)
    }
    this.#enter(number, hash, depth)
  }

  #split(number: number, hash: number, depth: number): void {
    if (depth === 32 - this.shift) {
      const before = this.directory
      this.directory = new Int32Array(2 * before.length).map((_, i) => before[i >> 1] as number)
      this.shift -= 1
    }
    const buckets = this.buckets[number] as number
    const other = this.#makeSegment(buckets, depth + 1)
    const bit = 31 - depth
    const [rows, half] = [this.rows[number], this.rows[other]]
    const moved = divide(rows as Int32Array, half as Int32Array, buckets, bit)
    this.surplus[number] = (this.surplus[number] as number) - moved
    this.surplus[other] = (this.surplus[other] as number) + moved
    this.#depths[number] = depth + 1
    // Both filters still contain the bits of the blocks of both.
    this.#added[number] = (ROWS * buckets) >> 1
    this.#added[other] = (ROWS * buckets) >> 1
    this.#enter(number, hash & ~(1 << bit), depth + 1)
    this.#enter(other, hash | (1 << bit), depth + 1)
  }

  /** Moves all rows of a segment to another one. */
  #moveAll(from: number, to: number): void {
    moveRows(
      this.rows[from] as Int32Array,
      this.buckets[from] as number,
      this.rows[to] as Int32Array,
      this.buckets[to] as number,
    )
    this.surplus[to] = (this.surplus[to] as number) + this.liveOf(from)
  }

  /** Rebuilds the filter, without the bits of removed blocks. */
  #makeMarks(number: number): void {
    const rows = this.rows[number] as Int32Array
    const buckets = this.buckets[number] as number
    rows.fill(0, BUCKET * buckets)
    for (let bucket = 0; bucket < BUCKET * buckets; bucket += BUCKET) {
      for (let k = bucket + 1; k < bucket + BUCKET; k += ROW) {
        if (!isRow(rows, k)) continue
        setMark(rows, buckets, spreadHash(rows[k] as number, rows[k + 1] as number))
      }
    }
    this.#added[number] = 0
  }

  #makeSegment(buckets: number, depth: number): number {
    const number = this.#free.pop() ?? this.rows.length
    if (number === this.buckets.length) {
      this.buckets = grown(this.buckets, 2 * number)
      this.surplus = grown(this.surplus, 2 * number)
      this.#surplusMax = grown(this.#surplusMax, 2 * number)
      this.#depths = grown(this.#depths, 2 * number)
      this.#firsts = grown(this.#firsts, 2 * number)
      this.#added = grown(this.#added, 2 * number)
    }
    this.rows[number] = this.#memory.take(wordsFor(buckets))
    this.buckets[number] = buckets
    this.surplus[number] = -floorOf(buckets)
    this.#surplusMax[number] = fullOf(buckets) - floorOf(buckets)
    this.#added[number] = 0
    this.#depths[number] = depth
    return number
  }

  #release(number: number): void {
    this.#memory.give(this.rows[number] as Int32Array)
    this.rows[number] = NONE
    this.buckets[number] = 0
    this.surplus[number] = 0
    this.#free.push(number)
    const buffer = this.#memory.toEmpty()
    if (buffer !== null) this.#moveFrom(buffer)
  }

  /** Moves all segments in a buffer to other memory; their numbers stay. */
  #moveFrom(buffer: ArrayBufferLike): void {
    for (const [number, segment] of this.rows.entries()) {
      if (segment.buffer === buffer) this.rows[number] = this.#memory.move(segment)
    }
  }

  /** Sets the segment of all hashes with the same first `depth` bits in the directory. */
  #enter(number: number, hash: number, depth: number): void {
    const spare = 32 - this.shift - depth
    const first = (hash >>> (32 - depth)) << spare
    this.#firsts[number] = hash
    this.directory.fill(number, first, first + (1 << spare))
  }
}
