/**
 * Says of most hashes at once that no loose block has them: a bit for each hash, in memory that stays in the cache.
 *
 * Whoever adds to a run must know that none of its blocks is loose, and nearly none is. Bits of blocks that have gone stay
 * until the filter is made anew, beside the one that is asked, some chunks of rows at a time (`tend`). Above its largest size it says nothing.
 */
import { CHUNK_ROWS } from './loose-rows.ts'
import type { LooseRows } from './loose-rows.ts'
import { spreadHash } from './loose-table.ts'

const WORDS_MIN = 64
const WORDS_MAX = 1 << 17
/** Bits for each hash that was added, at least. */
const BITS_EACH = 8
/** Chunks that are shown to a new filter at once, and how often: when so large a share of a chunk has been added. */
const SHOWN_CHUNKS = 4
const SHOWN_SHARE = 4
const NONE = new Int32Array(0)

export class LooseFilter {
  #words: Int32Array = new Int32Array(WORDS_MIN)
  #added = 0
  #next: Int32Array = NONE
  #nextAdded = 0
  /** Chunks that have been shown to the new filter, and blocks added since the last one was. */
  #shown = 0
  #addedSince = 0
  #isOff = false

  get bytes(): number {
    return this.#words.byteLength + this.#next.byteLength
  }

  /** Shows some chunks of rows to a new filter, when one is wanted: so many that it is done long before it is full. */
  tend(rows: LooseRows): void {
    const isFull = BITS_EACH * this.#added >= 32 * this.#words.length
    if (this.#next === NONE) {
      if (this.#isOff || !isFull) return
      this.#begin(rows.count)
    }
    if (this.#next === NONE || SHOWN_SHARE * this.#addedSince < CHUNK_ROWS) return
    this.#addedSince = 0
    for (let step = 0; step < SHOWN_CHUNKS && this.#shown < rows.top; step++) {
      this.#show(rows, this.#shown)
      this.#shown += 1
    }
    if (this.#shown < rows.top) return
    this.#words = this.#next
    this.#added = this.#nextAdded
    this.#next = NONE
  }

  /** Forgets nothing yet: the new filter, with space for twice as many, has to be shown all blocks first. */
  #begin(count: number): void {
    let length = WORDS_MIN
    while (32 * length < 2 * BITS_EACH * count) length *= 2
    this.#nextAdded = 0
    this.#shown = 0
    this.#addedSince = CHUNK_ROWS
    if (length <= WORDS_MAX) this.#next = new Int32Array(length)
    else {
      this.#isOff = true
      this.#words = NONE
    }
  }

  #show(rows: LooseRows, chunk: number): void {
    if (!rows.isLive(chunk)) return
    const first = rows.firstOf(chunk)
    for (let position = first; position < first + CHUNK_ROWS; position++) {
      if (rows.ownerOf(position) !== 0) this.moved(rows.lowOf(position), rows.highOf(position))
    }
  }

  /** A block lies in another chunk, which has been shown already. */
  moved(low: number, high: number): void {
    if (this.#next === NONE) return
    set(this.#next, spreadHash(low, high))
    this.#nextAdded += 1
  }

  add(low: number, high: number): void {
    if (this.#isOff) return
    const bit = spreadHash(low, high)
    set(this.#words, bit)
    this.#added += 1
    this.#addedSince += 1
    this.moved(low, high)
  }

  /** False: no hash that was added is this one (signed halves). */
  mayHave(low: number, high: number): boolean {
    if (this.#isOff) return true
    const bit = spreadHash(low, high)
    return (
      ((this.#words[(bit >>> 5) & (this.#words.length - 1)] as number) & (1 << (bit & 31))) !== 0
    )
  }
}

function set(words: Int32Array, bit: number): void {
  const word = (bit >>> 5) & (words.length - 1)
  words[word] = (words[word] as number) | (1 << (bit & 31))
}
