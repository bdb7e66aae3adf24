/**
 * Bounded memory of what a word became: text is mostly words that were seen before, so the merge loop is the
 * exception. Two generations: when the young one is full it becomes the old one, and what is used moves over again.
 */
import type { TokenBuffer } from './token-buffer.ts'

const GENERATION_ENTRIES = 20_000
/** A longer piece is hardly seen twice. */
const PIECE_CHARS_MAX = 48
/** From this length on the engine makes a slice that keeps its whole parent alive. */
const SLICE_CHARS_MIN = 13
/** More ids than a piece that is remembered can have (four bytes a character); with the place in one small integer. */
const COUNT_LIMIT = 256

export class PieceCache {
  readonly #encode: (piece: string) => Uint32Array
  #young = new Generation()
  #old = new Generation()

  /** `encode` is asked for pieces that are not remembered. */
  constructor(encode: (piece: string) => Uint32Array) {
    this.#encode = encode
  }

  /** Appends the ids of every piece. */
  encodeAll(pieces: Iterable<string>, ids: TokenBuffer): void {
    for (const piece of pieces) {
      if (this.#young.append(piece, ids)) continue
      const fresh = this.#old.idsOf(piece) ?? this.#encode(piece)
      this.#remember(piece, fresh)
      ids.pushRange(fresh, 0, fresh.length)
    }
  }

  #remember(piece: string, ids: Uint32Array): void {
    if (piece.length > PIECE_CHARS_MAX || ids.length >= COUNT_LIMIT) return
    if (this.#young.size >= GENERATION_ENTRIES) {
      this.#old = this.#young
      this.#young = new Generation()
    }
    this.#young.add(piece.length < SLICE_CHARS_MIN ? piece : detached(piece), ids)
  }
}

/**
 * Words and where their ids lie, all in one array: an array for each word would be one more object that is not in the
 * processor's cache when the word comes again.
 */
class Generation {
  /** Word → place of its first id × COUNT_LIMIT + how many it has. */
  readonly #places = new Map<string, number>()
  #ids = new Uint32Array(256)
  #end = 0

  get size(): number {
    return this.#places.size
  }

  add(piece: string, ids: Uint32Array): void {
    const end = this.#end + ids.length
    if (end > this.#ids.length) {
      const wider = new Uint32Array(end * 2)
      wider.set(this.#ids)
      this.#ids = wider
    }
    this.#ids.set(ids, this.#end)
    this.#places.set(piece, this.#end * COUNT_LIMIT + ids.length)
    this.#end = end
  }

  /** False: the piece is not remembered. */
  append(piece: string, to: TokenBuffer): boolean {
    const place = this.#places.get(piece)
    if (place === undefined) return false
    const start = Math.trunc(place / COUNT_LIMIT)
    to.pushRange(this.#ids, start, start + (place % COUNT_LIMIT))
    return true
  }

  idsOf(piece: string): Uint32Array | undefined {
    const place = this.#places.get(piece)
    if (place === undefined) return undefined
    const start = Math.trunc(place / COUNT_LIMIT)
    return this.#ids.subarray(start, start + (place % COUNT_LIMIT))
  }
}

/** The same text in memory of its own, so that a cached word does not keep a whole prompt. */
function detached(text: string): string {
  return text.split('').join('')
}
