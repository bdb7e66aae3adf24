/**
 * The memory layout of one segment of `LooseTable`: buckets of one cache line (16 words), followed by a filter bitmap
 * that says which hashes are certainly absent.
 *
 *   segment  | bucket | bucket | … | filter bits |
 *   bucket   | header | low high word | low high word | … 5 rows |
 *   header   | overflow count 7 | print 5 | print 5 | print 5 | print 5 | print 5 |   print 0: empty row
 *
 * Owns where a row is inserted and what changes when it is removed. A print is 5 bits of the row's hash; all five
 * prints of a bucket are compared at once and without a branch, because a branch would be mispredicted and stop the
 * processor from starting on the next block while it waits for memory. The overflow count is the number of rows that
 * found the bucket full and were put into a following one.
 */
export const BUCKET_BITS = 4
export const BUCKET = 1 << BUCKET_BITS
export const ROWS = 5
export const ROW = 3
export const WORD = 2
/** Filter bits per bucket. */
const BUCKET_MARKS = 20
const PRINT_BITS = 5
const PRINT_MASK = (1 << PRINT_BITS) - 1
/** Masks of the lowest and the highest bit of each print. */
const LOWEST = 0x108421
const HIGHEST = LOWEST << (PRINT_BITS - 1)
/** The overflow count is above the prints; once it saturates it stays there until the rows are moved. */
const PASSED_SHIFT = ROWS * PRINT_BITS
const PASSED_ONE = 1 << PASSED_SHIFT
const PASSED_MAX = 127
const PRINTS = PASSED_ONE - 1

export function spreadHash(low: number, high: number): number {
  const mixed = Math.imul(low ^ Math.imul(high | 0, 0x85ebca6b), 0x9e3779b1)
  const again = Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35)
  return again ^ (again >>> 13)
}

/** Start of the home bucket of a hash. Uses the lower bits, because the directory uses the upper ones. */
export const homeOf = (hash: number, buckets: number): number =>
  (Math.imul(hash & 0xffff, buckets) >>> 16) << BUCKET_BITS

export const markOf = (hash: number, buckets: number): number =>
  Math.imul(Math.imul(hash, 0x9e3779b1) >>> 16, BUCKET_MARKS * buckets) >>> 16

/** Index of the word of a segment that has the filter bit of a hash. */
export const markWordOf = (hash: number, buckets: number): number =>
  (buckets << BUCKET_BITS) + (markOf(hash, buckets) >>> 5)

export const wordsFor = (buckets: number): number =>
  BUCKET * buckets + ((BUCKET_MARKS * buckets + 31) >> 5)

/** The print of a hash: 1 .. 31. */
export function printOf(hash: number): number {
  const print = Math.imul(hash, 0x85ebca6b) >>> (32 - PRINT_BITS)
  return print | ((print - 1) >>> 31)
}

/**
 * Bit mask of the rows whose print is `print` (0: empty rows). Only the lowest bit is reliable; higher ones may be
 * false.
 */
export function candidatesOf(header: number, print: number): number {
  const different = header ^ Math.imul(print, LOWEST)
  return (different - LOWEST) & ~different & HIGHEST
}

/** Word index of the row of the lowest candidate. */
export function rowOf(bucket: number, candidates: number): number {
  const bit = 31 - Math.clz32(candidates & -candidates)
  // Rows of three words, prints of five bits: a division by 5.
  return (bucket + 1 + (Math.imul(bit - (PRINT_BITS - 1), 154) >> 8)) | 0
}

/** A header without the print of the lowest candidate. */
export function withoutPrint(header: number, candidates: number): number {
  const highest = candidates & -candidates
  return header & ~((highest << 1) - (highest >>> (PRINT_BITS - 1)))
}

export const hasPassed = (header: number): boolean => header >>> PASSED_SHIFT !== 0

/** 1 if a search for this print that begins here may succeed, 0 if it certainly fails; computed without a branch. */
export function mayBeIn(header: number, print: number): number {
  const some = candidatesOf(header, print) | (header >>> PASSED_SHIFT)
  return (some | -some) >>> 31
}

/** Position of a row's print in the bucket's header: a division by 3. */
const shiftOf = (at: number): number => Math.imul((at & (BUCKET - 1)) - 1, 427) >> 8

export function isRow(rows: Int32Array, at: number): boolean {
  return ((rows[at & ~(BUCKET - 1)] as number) & (PRINT_MASK << shiftOf(at))) !== 0
}

/** Inserts a row. There is space, and no row with this hash. */
export function put(
  rows: Int32Array,
  buckets: number,
  hash: number,
  low: number,
  high: number,
  word: number,
): void {
  let bucket = homeOf(hash, buckets)
  let header = rows[bucket] as number
  let empty = candidatesOf(header, 0)
  while (empty === 0) {
    if (header >>> PASSED_SHIFT < PASSED_MAX) rows[bucket] = header + PASSED_ONE
    bucket += BUCKET
    if (bucket === buckets << BUCKET_BITS) bucket = 0
    header = rows[bucket] as number
    empty = candidatesOf(header, 0)
  }
  const k = rowOf(bucket, empty)
  rows[bucket] = header | (printOf(hash) << shiftOf(k))
  rows[k] = low
  rows[k + 1] = high
  rows[k + WORD] = word
  setMark(rows, buckets, hash)
}

/** Word index of the row with a hash in its segment, or -1. */
export function seek(
  rows: Int32Array,
  buckets: number,
  hash: number,
  low: number,
  high: number,
): number {
  const first = homeOf(hash, buckets)
  const wanted = printOf(hash)
  for (let bucket = first; ;) {
    const header = rows[bucket] as number
    for (let left = candidatesOf(header, wanted); left !== 0; left &= left - 1) {
      const k = rowOf(bucket, left)
      if (rows[k] === low && rows[k + 1] === high && isRow(rows, k)) return k
    }
    if (!hasPassed(header)) return -1
    bucket += BUCKET
    if (bucket === buckets << BUCKET_BITS) bucket = 0
    // In a small segment every bucket may have an overflow count above 0.
    if (bucket === first) return -1
  }
}

/** Inserts all rows of a segment into another one. */
export function moveRows(
  rows: Int32Array,
  buckets: number,
  target: Int32Array,
  targetBuckets: number,
): void {
  for (let bucket = 0, end = buckets << BUCKET_BITS; bucket < end; bucket += BUCKET) {
    const header = rows[bucket] as number
    let print = PRINT_MASK
    for (let k = bucket + 1; k < bucket + BUCKET; k += ROW, print <<= PRINT_BITS) {
      if ((header & print) === 0) continue
      const low = rows[k] as number
      const high = rows[k + 1] as number
      put(target, targetBuckets, spreadHash(low, high), low, high, rows[k + 2] as number)
    }
  }
}

/** A header without the print of the row at `at`. */
export const cleared = (header: number, at: number): number => header & ~(PRINT_MASK << shiftOf(at))

/** Removes a row whose home bucket is `home`. */
export function clear(rows: Int32Array, at: number, home: number, end: number): void {
  const bucket = at & ~(BUCKET - 1)
  while (home !== bucket) {
    const header = rows[home] as number
    if (header >>> PASSED_SHIFT < PASSED_MAX) rows[home] = header - PASSED_ONE
    home += BUCKET
    if (home === end) home = 0
  }
  rows[bucket] = cleared(rows[bucket] as number, at)
}

export function setMark(rows: Int32Array, buckets: number, hash: number): void {
  const at = markWordOf(hash, buckets)
  rows[at] = (rows[at] as number) | (1 << (markOf(hash, buckets) & 31))
}

/**
 * Moves the rows whose hash has a bit set to an empty segment of the same size; returns their number. Rows keep their
 * place, because their home depends on other bits; rows outside their home bucket are inserted again, now that there
 * is space.
 */
export function divide(rows: Int32Array, target: Int32Array, buckets: number, bit: number): number {
  const end = buckets << BUCKET_BITS
  const strays: readonly [number[], number[]] = [[], []]
  let moved = 0
  target.set(rows)
  rows.fill(0, end)
  for (let bucket = 0; bucket < end; bucket += BUCKET) {
    const header = rows[bucket] as number
    let gone = 0
    let print = PRINT_MASK
    for (let k = bucket + 1; k < bucket + BUCKET; k += ROW, print <<= PRINT_BITS) {
      if ((header & print) === 0) continue
      const hash = spreadHash(rows[k] as number, rows[k + 1] as number)
      const isMoved = (hash >>> bit) & 1 ? 1 : 0
      // Without a branch: it would be mispredicted for every second row.
      gone |= print & -isMoved
      moved += isMoved
      setMark(rows, buckets, hash)
      if (homeOf(hash, buckets) !== bucket) strays[isMoved].push(k)
    }
    rows[bucket] = header & PRINTS & ~gone
    target[bucket] = header & gone
  }
  target.set(rows.subarray(end), end)
  // Rows that were put back may occupy places of overflowed rows in the other half.
  settle(rows, buckets, strays[0])
  settle(target, buckets, strays[1])
  return moved
}

/** Inserts again the rows that were outside their home bucket. */
function settle(rows: Int32Array, buckets: number, strays: readonly number[]): void {
  for (const k of strays) {
    const low = rows[k] as number
    const high = rows[k + 1] as number
    const bucket = k & ~(BUCKET - 1)
    rows[bucket] = cleared(rows[bucket] as number, k)
    put(rows, buckets, spreadHash(low, high), low, high, rows[k + WORD] as number)
  }
}
