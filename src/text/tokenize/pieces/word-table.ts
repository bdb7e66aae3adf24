/**
 * A hash table from words (UTF-16 units) to their token ids, in flat arrays. A `Map` would need a string per lookup
 * and an array per entry.
 */
import type { TokenBuffer } from './token-buffer.ts'

const SLOTS_FIRST = 1024
/** Fields of a word: offset and number of its units, offset and number of its ids. */
const FIELDS = 4

const BLANK = 0x20
const TO_SMALL = 0x20
const SMALL_A = 0x61
const LETTERS = 26
const ASCII_END = 0x80
const HASH_FACTOR = 0x01000193

function mixed(hash: number, length: number): number {
  const once = Math.imul(hash ^ length ^ (hash >>> 15), 0x2c1b3c6d)
  return once ^ (once >>> 13)
}

/** The hash of the last word that `asciiWordEnd` has found. */
export let asciiWordHash = 0

/**
 * The end of the word of ASCII letters, with at most one blank before it, that begins at `at`; `at`: there is none, or
 * it may continue with other letters. Most words are such words, so they are found and hashed in one walk.
 */
export function asciiWordEnd(units: Uint16Array, at: number, end: number): number {
  let to = at
  let hash = 0
  if (units[to] === BLANK) {
    hash = Math.imul(BLANK, HASH_FACTOR)
    to++
  }
  const first = to
  for (; to < end; to++) {
    const unit = units[to]!
    if (((unit | TO_SMALL) - SMALL_A) >>> 0 >= LETTERS) {
      if (unit >= ASCII_END) return at
      break
    }
    hash = Math.imul(hash ^ unit, HASH_FACTOR)
  }
  if (to === first) return at
  asciiWordHash = mixed(hash, to - at)
  return to
}

export class WordTable {
  /** Pairs: hash, and index of the word in `#words` plus one; 0: free. */
  #slots = new Int32Array(SLOTS_FIRST * 2)
  #words = new Uint32Array((SLOTS_FIRST / 2) * FIELDS)
  #size = 0
  #units = new Uint16Array(4096)
  #unitsEnd = 0
  #ids = new Uint32Array(2048)
  #idsEnd = 0

  static hash(units: Uint16Array, start: number, end: number): number {
    let hash = 0
    for (let i = start; i < end; i++) hash = Math.imul(hash ^ units[i]!, HASH_FACTOR)
    return mixed(hash, end - start)
  }

  get size(): number {
    return this.#size
  }

  /** Appends the word's ids; false if the word is not in the table. */
  append(units: Uint16Array, start: number, end: number, hash: number, to: TokenBuffer): boolean {
    const slots = this.#slots
    const words = this.#words
    const mask = slots.length / 2 - 1
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const place = slots[slot * 2 + 1]!
      if (place === 0) return false
      if (slots[slot * 2] !== hash) continue
      const word = (place - 1) * FIELDS
      if (words[word + 1] !== end - start || !this.#isAt(words[word]!, units, start, end)) continue
      const from = words[word + 2]!
      to.pushRange(this.#ids, from, from + words[word + 3]!)
      return true
    }
  }

  /** Adds a word; its ids are those of `ids` from `idsStart` on. */
  add(
    units: Uint16Array,
    start: number,
    end: number,
    hash: number,
    ids: TokenBuffer,
    idsStart: number,
  ): void {
    if ((this.#size + 1) * FIELDS > this.#words.length) this.#widen()
    const length = end - start
    const count = ids.length - idsStart
    if (this.#unitsEnd + length > this.#units.length) {
      const wider = new Uint16Array((this.#unitsEnd + length) * 2)
      wider.set(this.#units)
      this.#units = wider
    }
    if (this.#idsEnd + count > this.#ids.length) {
      const wider = new Uint32Array((this.#idsEnd + count) * 2)
      wider.set(this.#ids)
      this.#ids = wider
    }
    for (let i = 0; i < length; i++) this.#units[this.#unitsEnd + i] = units[start + i]!
    ids.copyTo(this.#ids, this.#idsEnd, idsStart)
    const word = this.#size * FIELDS
    this.#words[word] = this.#unitsEnd
    this.#words[word + 1] = length
    this.#words[word + 2] = this.#idsEnd
    this.#words[word + 3] = count
    this.#unitsEnd += length
    this.#idsEnd += count
    this.#size += 1
    this.#place(this.#slots, hash, this.#size)
  }

  #isAt(from: number, units: Uint16Array, start: number, end: number): boolean {
    const own = this.#units
    for (let i = start, at = from; i < end; i++, at++) if (own[at] !== units[i]) return false
    return true
  }

  /** Keeps half of the slots free. */
  #widen(): void {
    const slots = new Int32Array(this.#slots.length * 2)
    for (let slot = 0; slot < this.#slots.length; slot += 2) {
      const place = this.#slots[slot + 1]!
      if (place !== 0) this.#place(slots, this.#slots[slot]!, place)
    }
    this.#slots = slots
    const words = new Uint32Array(this.#words.length * 2)
    words.set(this.#words)
    this.#words = words
  }

  #place(slots: Int32Array, hash: number, place: number): void {
    const mask = slots.length / 2 - 1
    let slot = hash & mask
    while (slots[slot * 2 + 1] !== 0) slot = (slot + 1) & mask
    slots[slot * 2] = hash
    slots[slot * 2 + 1] = place
  }
}
