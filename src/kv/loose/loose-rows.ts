/**
 * The rows of loose blocks: 12 bytes each, in chunks that are filled one after the other, so that what lies together
 * came together.
 *
 *   chunk   | low high owner | low high owner | ...   1,024 rows; a block's position is chunk * 1,024 + row
 *   owner     0: no block; > 0: the one stay that has it (`Tenancies`); < 0: ~ where their list is (`OwnerLists`)
 *
 * Owns: chunks, their order of age, and their memory: an empty chunk is given back at once. When two thirds of all rows
 * are free, one that is as empty is given back after its blocks have been moved to the newest one.
 */
const CHUNK_BITS = 10
export const CHUNK_ROWS = 1 << CHUNK_BITS
const ROW_MASK = CHUNK_ROWS - 1
const ROW = 3
const OWNER = 2
/** What is known of a chunk: rows in use, when it was begun, and its neighbours in age. */
const CHUNK_STRIDE = 4
const LIVE = 0
const BEGUN = 1
const NEWER = 2
const OLDER = 3
/** Rows for each one in use, from which on memory is given back. */
const FREE_SHARE = 3
const NONE = new Int32Array(0)

export class LooseRows {
  #chunks: Int32Array[] = []
  #records = new Int32Array(16 * CHUNK_STRIDE)
  #free: number[] = []
  #oldest = -1
  #newest = -1
  /** Rows of the newest chunk that have been given out. */
  #used = CHUNK_ROWS
  #chunkCount = 0
  count = 0

  get bytes(): number {
    return this.#chunkCount * 4 * (ROW * CHUNK_ROWS + CHUNK_STRIDE)
  }

  /** Chunks 0 .. top-1 exist or have been given back. */
  get top(): number {
    return this.#chunks.length
  }

  get oldest(): number {
    return this.#oldest
  }

  begunOf(chunk: number): number {
    return this.#records[CHUNK_STRIDE * chunk + BEGUN] as number
  }

  chunkOf(position: number): number {
    return position >> CHUNK_BITS
  }

  firstOf(chunk: number): number {
    return chunk << CHUNK_BITS
  }

  lowOf(position: number): number {
    return this.#rowsOf(position)[ROW * (position & ROW_MASK)] as number
  }

  highOf(position: number): number {
    return this.#rowsOf(position)[ROW * (position & ROW_MASK) + 1] as number
  }

  ownerOf(position: number): number {
    return this.#rowsOf(position)[ROW * (position & ROW_MASK) + OWNER] as number
  }

  setOwner(position: number, owner: number): void {
    this.#rowsOf(position)[ROW * (position & ROW_MASK) + OWNER] = owner
  }

  /** Whether the row after a position is a block of this hash (signed halves). */
  isNext(position: number, low: number, high: number): boolean {
    const k = ROW * ((position & ROW_MASK) + 1)
    const rows = this.#rowsOf(position)
    return (
      k < rows.length &&
      rows[k] === low &&
      rows[k + 1] === high &&
      (rows[k + OWNER] as number) !== 0
    )
  }

  /** A row of the newest chunk, which is begun at `tick` if none has space. */
  add(low: number, high: number, owner: number, tick: number): number {
    if (this.#used === CHUNK_ROWS) this.#begin(tick)
    const position = (this.#newest << CHUNK_BITS) | this.#used
    const rows = this.#rowsOf(position)
    const k = ROW * this.#used
    rows[k] = low
    rows[k + 1] = high
    rows[k + OWNER] = owner
    this.#used += 1
    this.count += 1
    this.#addLive(this.#newest, 1)
    return position
  }

  /** The row is free; its chunk stays until `isSparse` has been asked. */
  clear(position: number): void {
    this.setOwner(position, 0)
    this.count -= 1
    this.#addLive(position >> CHUNK_BITS, -1)
  }

  /** Whether a chunk is worth giving back: nothing, or little, is in it, and it is not the newest. */
  isSparse(chunk: number): boolean {
    if (chunk === this.#newest || this.#chunks[chunk] === NONE) return false
    const live = this.#records[CHUNK_STRIDE * chunk + LIVE] as number
    if (live === 0) return true
    return FREE_SHARE * live < CHUNK_ROWS && FREE_SHARE * this.count < CHUNK_ROWS * this.#chunkCount
  }

  isLive(chunk: number): boolean {
    return this.#chunks[chunk] !== NONE && this.#chunks[chunk] !== undefined
  }

  /** Gives a chunk back whose rows are all free. */
  release(chunk: number): void {
    const record = CHUNK_STRIDE * chunk
    const newer = this.#records[record + NEWER] as number
    const older = this.#records[record + OLDER] as number
    if (newer >= 0) this.#records[CHUNK_STRIDE * newer + OLDER] = older
    else {
      this.#newest = older
      this.#used = CHUNK_ROWS
    }
    if (older >= 0) this.#records[CHUNK_STRIDE * older + NEWER] = newer
    else this.#oldest = newer
    this.#chunks[chunk] = NONE
    this.#free.push(chunk)
    this.#chunkCount -= 1
  }

  #rowsOf(position: number): Int32Array {
    return this.#chunks[position >> CHUNK_BITS] as Int32Array
  }

  #addLive(chunk: number, change: number): void {
    const at = CHUNK_STRIDE * chunk + LIVE
    this.#records[at] = (this.#records[at] as number) + change
  }

  #begin(tick: number): void {
    const chunk = this.#free.pop() ?? this.#chunks.length
    this.#chunks[chunk] = new Int32Array(ROW * CHUNK_ROWS)
    if (CHUNK_STRIDE * chunk >= this.#records.length) {
      const records = new Int32Array(2 * this.#records.length)
      records.set(this.#records)
      this.#records = records
    }
    const record = CHUNK_STRIDE * chunk
    this.#records[record + LIVE] = 0
    this.#records[record + BEGUN] = tick
    this.#records[record + NEWER] = -1
    this.#records[record + OLDER] = this.#newest
    if (this.#newest >= 0) this.#records[CHUNK_STRIDE * this.#newest + NEWER] = chunk
    else this.#oldest = chunk
    this.#newest = chunk
    this.#used = 0
    this.#chunkCount += 1
  }
}
