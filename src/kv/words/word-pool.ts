/**
 * Allocates short arrays of words in a few large ones, for lists that grow and shrink by powers of two.
 *
 * An array has `1 << sizeClass` words and is named by its address (chunk and offset). Small arrays share a chunk and
 * are reused by size class; a large array has a chunk of its own, which is released with it. If nothing is in use, only
 * one chunk is kept, so that a pool that is emptied and filled by turns allocates nothing.
 */
const CHUNK_BITS = 16
const CHUNK = 1 << CHUNK_BITS
const CHUNK_MASK = CHUNK - 1
const NONE = new Int32Array(0)

export class WordPool {
  readonly #chunks: Int32Array[] = []
  /** Numbers of released chunks. */
  readonly #emptied: number[] = []
  /** First free array of each size class; free arrays are linked by their first words. */
  readonly #free = new Int32Array(32).fill(-1)
  #open = -1
  #openLeft = 0
  #wordsUsed = 0

  /** Memory in use, in bytes. */
  get bytes(): number {
    return 4 * this.#wordsUsed
  }

  /** The chunk that contains an array. */
  chunkOf(at: number): Int32Array {
    return this.#chunks[at >>> CHUNK_BITS] as Int32Array
  }

  /** Offset of an array in its chunk. */
  offsetOf(at: number): number {
    return at & CHUNK_MASK
  }

  take(sizeClass: number): number {
    const length = 1 << sizeClass
    this.#wordsUsed += length
    if (length >= CHUNK) return this.#addChunk(length) << CHUNK_BITS
    const free = this.#free[sizeClass] as number
    if (free >= 0) {
      this.#free[sizeClass] = this.chunkOf(free)[free & CHUNK_MASK] as number
      return free
    }
    if (length > this.#openLeft) {
      // The rest of the previous chunk stays unused.
      this.#open = this.#addChunk(CHUNK)
      this.#openLeft = CHUNK
    }
    const at = (this.#open << CHUNK_BITS) | (CHUNK - this.#openLeft)
    this.#openLeft -= length
    return at
  }

  release(at: number, sizeClass: number): void {
    const length = 1 << sizeClass
    this.#wordsUsed -= length
    if (this.#wordsUsed === 0) {
      this.clear()
      return
    }
    if (length >= CHUNK) {
      this.#chunks[at >>> CHUNK_BITS] = NONE
      this.#emptied.push(at >>> CHUNK_BITS)
      return
    }
    this.chunkOf(at)[at & CHUNK_MASK] = this.#free[sizeClass] as number
    this.#free[sizeClass] = at
  }

  #addChunk(length: number): number {
    const number = this.#emptied.pop() ?? this.#chunks.length
    this.#chunks[number] = new Int32Array(length)
    return number
  }

  /** Releases everything except one chunk. */
  clear(): void {
    this.#wordsUsed = 0
    const isKept = this.#chunks[0]?.length === CHUNK
    this.#chunks.length = isKept ? 1 : 0
    this.#emptied.length = 0
    this.#free.fill(-1)
    this.#open = isKept ? 0 : -1
    this.#openLeft = isKept ? CHUNK : 0
  }
}
