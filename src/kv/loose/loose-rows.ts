/**
 * The rows of one segment of `LooseTable`: buckets of one cache line, and bits that say which hashes are surely not here.
 *
 *   | passed by | low high word | low high word | … 5 rows |   | passed by | …   | bits |
 *
 * Owns: where a row goes and what it leaves behind when it goes. A bucket counts the rows that found it full and went on to
 * the next one. A word of 0: no row.
 */
export const BUCKET_BITS = 4
export const BUCKET = 1 << BUCKET_BITS
export const ROWS = 5
export const ROW = 3
export const WORD = 2
/** Bits for each bucket. */
const BUCKET_MARKS = 20

export function spreadHash(low: number, high: number): number {
  const mixed = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1)
  const again = Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35)
  return again ^ (again >>> 13)
}

/** Where the bucket of a hash begins; the directory has its first bits, so this has its last. */
export const homeOf = (hash: number, buckets: number): number =>
  (Math.imul(hash & 0xffff, buckets) >>> 16) << BUCKET_BITS

export const markOf = (hash: number, buckets: number): number =>
  Math.imul(Math.imul(hash, 0x9e3779b1) >>> 16, BUCKET_MARKS * buckets) >>> 16

export const wordsFor = (buckets: number): number =>
  BUCKET * buckets + ((BUCKET_MARKS * buckets + 31) >> 5)

/** Adds a row; there is space for it, and no other with this hash. */
export function put(
  rows: Int32Array,
  buckets: number,
  hash: number,
  low: number,
  high: number,
  word: number,
): void {
  let bucket = homeOf(hash, buckets)
  let k = bucket + 1
  while (rows[k + WORD] !== 0) {
    k += ROW
    if (k < bucket + BUCKET) continue
    rows[bucket] = (rows[bucket] as number) + 1
    bucket += BUCKET
    if (bucket === buckets << BUCKET_BITS) bucket = 0
    k = bucket + 1
  }
  rows[k] = low
  rows[k + 1] = high
  rows[k + WORD] = word
  setMark(rows, buckets, hash)
}

/** Takes away a row whose search begins at `home`. */
export function clear(rows: Int32Array, at: number, home: number, end: number): void {
  for (const bucket = at & ~(BUCKET - 1); home !== bucket;) {
    rows[home] = (rows[home] as number) - 1
    home += BUCKET
    if (home === end) home = 0
  }
  rows[at] = 0
  rows[at + 1] = 0
  rows[at + WORD] = 0
}

export function setMark(rows: Int32Array, buckets: number, hash: number): void {
  const mark = markOf(hash, buckets)
  const at = (buckets << BUCKET_BITS) + (mark >>> 5)
  rows[at] = (rows[at] as number) | (1 << (mark & 31))
}
