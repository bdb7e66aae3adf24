/**
 * Bounded cache from words to token ids: text mostly consists of words seen before, so the merge loop is rarely
 * needed. Two generations: when the young one is full it becomes the old one, and entries in use are moved over
 * again.
 */
import type { TokenBuffer } from './token-buffer.ts'
import type { NextCut } from './word-cuts.ts'
import { asciiWordEnd, asciiWordHash, WordTable } from './word-table.ts'

const GENERATION_ENTRIES = 20_000
/** Longer pieces are rarely seen twice. */
const PIECE_UNITS_MAX = 48
/** Shorter texts are read faster unit by unit than by the platform's encoder. */
const ENCODED_UNITS_MIN = 512
/** The buffer of a longer text is not kept. */
const KEPT_UNITS_MAX = 128 * 1024

const encoder = new TextEncoder()

/** Appends the ids of the piece `units[start, end)`. */
type EncodePiece = (units: Uint16Array, start: number, end: number, ids: TokenBuffer) => void

export class PieceCache {
  readonly #encode: EncodePiece
  #young = new WordTable()
  #old = new WordTable()
  #units = new Uint16Array(1024)
  #bytes = new Uint8Array(0)

  /** `encode` is called for pieces that are not cached. */
  constructor(encode: EncodePiece) {
    this.#encode = encode
  }

  /** Appends the ids of the text, which is cut by `next`. */
  encodeText(text: string, next: NextCut, ids: TokenBuffer): void {
    const end = text.length
    const units = this.#unitsOf(text)
    const keepsWords = next.keepsWords === true
    for (let at = 0; at < end;) {
      const wordEnd = keepsWords ? asciiWordEnd(units, at, end) : at
      if (wordEnd > at && wordEnd - at <= PIECE_UNITS_MAX) {
        this.#encodeHashed(units, at, wordEnd, asciiWordHash, ids)
        at = wordEnd
        continue
      }
      const to = next(units, at, end)
      this.#encodeOne(units, at, to, ids)
      at = to
    }
  }

  /** Appends the ids of every piece. */
  encodePieces(pieces: Iterable<string>, ids: TokenBuffer): void {
    for (const piece of pieces) this.#encodeOne(this.#unitsOf(piece), 0, piece.length, ids)
  }

  #encodeOne(units: Uint16Array, start: number, end: number, ids: TokenBuffer): void {
    if (end - start > PIECE_UNITS_MAX) {
      this.#encode(units, start, end, ids)
      return
    }
    this.#encodeHashed(units, start, end, WordTable.hash(units, start, end), ids)
  }

  #encodeHashed(
    units: Uint16Array,
    start: number,
    end: number,
    hash: number,
    ids: TokenBuffer,
  ): void {
    if (this.#young.append(units, start, end, hash, ids)) return
    const before = ids.length
    if (!this.#old.append(units, start, end, hash, ids)) this.#encode(units, start, end, ids)
    if (this.#young.size >= GENERATION_ENTRIES) {
      this.#old = this.#young
      this.#young = new WordTable()
    }
    this.#young.add(units, start, end, hash, ids, before)
  }

  #unitsOf(text: string): Uint16Array {
    const { length } = text
    let units = this.#units
    if (units.length < length) {
      const isKept = length <= KEPT_UNITS_MAX
      units = new Uint16Array(isKept ? length * 2 : length)
      if (isKept) this.#units = units
    }
    if (length < ENCODED_UNITS_MIN || !this.#setAscii(text, units)) {
      for (let i = 0; i < length; i++) units[i] = text.charCodeAt(i)
    }
    return units
  }

  /** False: the text is not pure ASCII. */
  #setAscii(text: string, units: Uint16Array): boolean {
    if (text.charCodeAt(0) >= 0x80) return false
    const bytes = this.#bytes.length < text.length ? new Uint8Array(text.length) : this.#bytes
    if (bytes.length <= KEPT_UNITS_MAX) this.#bytes = bytes
    const { read, written } = encoder.encodeInto(text, bytes)
    if (read !== text.length || written !== read) return false
    units.set(bytes.subarray(0, written))
    return true
  }
}
