/**
 * Converts the token ids of one stream to text, one at a time, without ever splitting a character: bytes that may be
 * the start of a character are held back until it is complete, or become U+FFFD once it cannot be.
 */
import type { Tokenizer } from '../tokenize/tokenizer.ts'
import { PIECE, tokenPiecesOf } from './token-pieces.ts'
import type { TokenPieces } from './token-pieces.ts'
import { completeLength } from './utf8-tail.ts'

interface DetokenizerOptions {
  /** Omit control tokens from the text. Absent: true. */
  readonly skipSpecialTokens?: boolean
  /** Names of control tokens that are kept as text, for a parser that looks for them. */
  readonly keepTokens?: readonly string[]
}

const NOTHING = new Uint8Array(0)
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export class Detokenizer {
  readonly #pieces: TokenPieces
  readonly #skipsControl: boolean
  readonly #kept: ReadonlySet<number>
  #held: Uint8Array = NOTHING

  constructor(tokenizer: Tokenizer, options: DetokenizerOptions = {}) {
    this.#pieces = tokenPiecesOf(tokenizer)
    this.#skipsControl = options.skipSpecialTokens ?? true
    this.#kept = this.#pieces.controlIds(options.keepTokens ?? [])
  }

  /** The text that is complete with this token; often empty for a token with part of a character. */
  push(id: number): string {
    const kind = this.#pieces.kind(id)
    if (kind === PIECE.text && this.#held === NOTHING) return this.#pieces.text(id)
    if (kind === PIECE.control) {
      if (this.#skipsControl && !this.#kept.has(id)) return ''
      return this.flush() + this.#pieces.text(id)
    }
    return this.#join(this.#pieces.bytes(id))
  }

  /** End of the stream: the text of held bytes, which are an incomplete character. */
  flush(): string {
    if (this.#held === NOTHING) return ''
    const text = decoder.decode(this.#held)
    this.#held = NOTHING
    return text
  }

  #join(bytes: Uint8Array): string {
    const all = new Uint8Array(this.#held.length + bytes.length)
    all.set(this.#held)
    all.set(bytes, this.#held.length)
    const length = completeLength(all)
    this.#held = length === all.length ? NOTHING : all.slice(length)
    return length === 0 ? '' : decoder.decode(all.subarray(0, length))
  }
}
