/**
 * The text of each token, computed once per tokenizer on first use: almost every token is complete UTF-8, so
 * converting an id to text is one array access.
 */
import type { Tokenizer } from '../tokenize/tokenizer.ts'

/** Kinds of tokens; 0 means "not computed yet". */
export const PIECE = Object.freeze({
  /** Complete UTF-8. */
  text: 1,
  /** Begins or ends inside a character, or is not UTF-8: only its bytes can be used. */
  bytes: 2,
  control: 3,
})

const NO_IDS: ReadonlySet<number> = new Set()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export class TokenPieces {
  readonly #tokenizer: Tokenizer
  readonly #kinds: Uint8Array
  /** Allocated at full length: a sparse array filled in any order would become a hash table in V8. */
  readonly #texts: (string | undefined)[]
  #controlByName: ReadonlyMap<string, number> | null = null
  /** The first id outside the vocabulary, until it is reported. */
  #unknown: number | null = null
  #isUnknownReported = false

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer
    this.#kinds = new Uint8Array(tokenizer.vocabSize)
    this.#texts = Array.from({ length: tokenizer.vocabSize }, () => undefined)
  }

  /** One of `PIECE`. An id outside the vocabulary has an empty text. */
  kind(id: number): number {
    const kind = this.#kinds[id]
    if (kind === undefined) return this.#noteUnknown(id)
    return kind === 0 ? this.#learn(id) : kind
  }

  /** The text of a complete piece, or the name of a control token. */
  text(id: number): string {
    return this.#texts[id] ?? ''
  }

  /** Ids of the control tokens with these names; unknown names are ignored. */
  controlIds(names: readonly string[]): ReadonlySet<number> {
    if (names.length === 0) return NO_IDS
    this.#controlByName ??= new Map(
      this.#tokenizer.addedTokens
        .filter((token) => token.control)
        .map(({ text, id }) => [text, id]),
    )
    const byName = this.#controlByName
    const ids = names.map((name) => byName.get(name)).filter((id) => id !== undefined)
    return ids.length === 0 ? NO_IDS : new Set(ids)
  }

  /** An id outside the vocabulary that was converted; not null at most once, so that it is logged once. */
  takeUnknown(): number | null {
    if (this.#unknown === null || this.#isUnknownReported) return null
    this.#isUnknownReported = true
    return this.#unknown
  }

  bytes(id: number): Uint8Array {
    return this.#tokenizer.tokenBytes(id)
  }

  #noteUnknown(id: number): number {
    this.#unknown ??= id
    return PIECE.text
  }

  #learn(id: number): number {
    let kind: number = PIECE.control
    let text = this.#tokenizer.tokenName(id)
    if (!this.#tokenizer.isSpecial(id)) {
      const bytes = this.#tokenizer.tokenBytes(id)
      kind = kindOf(bytes)
      text = kind === PIECE.bytes ? '' : decoder.decode(bytes)
    }
    this.#texts[id] = text
    this.#kinds[id] = kind
    return kind
  }
}

function kindOf(bytes: Uint8Array): number {
  // Only valid UTF-8 survives decoding and encoding unchanged.
  const back = encoder.encode(decoder.decode(bytes))
  const isSame = back.length === bytes.length && back.every((byte, i) => byte === bytes[i])
  return isSame ? PIECE.text : PIECE.bytes
}

const encoder = new TextEncoder()
const known = new WeakMap<Tokenizer, TokenPieces>()

/** The pieces of a tokenizer, shared by all its users. */
export function tokenPiecesOf(tokenizer: Tokenizer): TokenPieces {
  let pieces = known.get(tokenizer)
  if (pieces === undefined) known.set(tokenizer, (pieces = new TokenPieces(tokenizer)))
  return pieces
}

/** An id outside the vocabulary that was converted to an empty text; null, and after the first call always null. */
export function takeUnknownToken(tokenizer: Tokenizer): number | null {
  return tokenPiecesOf(tokenizer).takeUnknown()
}
