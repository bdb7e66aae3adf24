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

export class PieceCache {
  readonly #encode: (piece: string) => Uint32Array
  #young = new Map<string, Uint32Array>()
  #old = new Map<string, Uint32Array>()

  /** `encode` is asked for pieces that are not remembered. */
  constructor(encode: (piece: string) => Uint32Array) {
    this.#encode = encode
  }

  /** Appends the ids of every piece. */
  encodeAll(pieces: Iterable<string>, ids: TokenBuffer): void {
    for (const piece of pieces) {
      const known = this.#get(piece)
      if (known !== undefined) ids.pushAll(known)
      else {
        const fresh = this.#encode(piece)
        this.#set(piece, fresh)
        ids.pushAll(fresh)
      }
    }
  }

  #get(piece: string): Uint32Array | undefined {
    const ids = this.#young.get(piece)
    if (ids !== undefined) return ids
    const old = this.#old.get(piece)
    if (old !== undefined) this.#set(piece, old)
    return old
  }

  #set(piece: string, ids: Uint32Array): void {
    if (piece.length > PIECE_CHARS_MAX) return
    if (this.#young.size >= GENERATION_ENTRIES) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(piece.length < SLICE_CHARS_MIN ? piece : detached(piece), ids)
  }
}

/** The same text in memory of its own, so that a cached word does not keep a whole prompt. */
function detached(text: string): string {
  return text.split('').join('')
}
