/**
 * Byte-level BPE, the tokenizer of most models: added tokens are taken out, the rest is cut into pieces, the bytes
 * of a piece are joined by rank. Words and long stretches that were seen before come from bounded caches.
 */
import { alphabetToBytes, byteChar, bytesToAlphabet } from './byte-alphabet.ts'
import { decodeTokens, wellFormed } from './decode-tokens.ts'
import { mergeSymbols } from './merge-loop.ts'
import type { MergeTable } from './merge-table.ts'
import { PieceCache } from './piece-cache.ts'
import type { PreTokenize } from './pre-tokenizer.ts'
import { StretchCache } from './stretch-cache.ts'
import { TokenBuffer } from './token-buffer.ts'
import type { EncodeOptions, Tokenizer } from './tokenizer.ts'
import { VocabularyTokenizer } from './vocabulary-tokenizer.ts'
import type { VocabularyOptions } from './vocabulary-tokenizer.ts'

interface ByteLevelBpeOptions extends VocabularyOptions {
  /** Ids by name, without the control tokens: plain text must never become one. */
  readonly ids: ReadonlyMap<string, number>
  readonly merges: MergeTable
  readonly preTokenize: PreTokenize
  /** What is done to plain text before it is cut. */
  readonly normalize: ((text: string) => string) | null
  /** A piece that is a token as a whole is taken as it is. */
  readonly ignoreMerges: boolean
}

const UNKNOWN_BYTE = -2
const encoder = new TextEncoder()

export class ByteLevelBpe extends VocabularyTokenizer implements Tokenizer {
  readonly #options: ByteLevelBpeOptions
  readonly #cache = new PieceCache((piece) => this.#encodePiece(piece))
  readonly #stretches = new StretchCache()
  readonly #buffer = new TokenBuffer()
  readonly #byteIds = new Int32Array(256)
  #symbols = new Int32Array(1024)

  constructor(options: ByteLevelBpeOptions) {
    super(options)
    this.#options = options
    for (let byte = 0; byte < 256; byte++) {
      this.#byteIds[byte] = options.ids.get(byteChar(byte)) ?? UNKNOWN_BYTE
    }
  }

  encode(text: string, options: EncodeOptions): Uint32Array {
    const ids = this.#buffer.clear()
    if (options.addBos === true && this.bosTokenId !== null) ids.push(this.bosTokenId)
    this.finder.visit(wellFormed(text), options, {
      onText: (stretch) => this.#encodePlain(stretch, ids),
      onToken: (token) => ids.push(token.id),
    })
    return ids.finish()
  }

  tokenBytes(id: number): Uint8Array {
    const added = this.addedBytes(id)
    if (added !== null) return added
    const name = this.tokenName(id)
    return alphabetToBytes(name) ?? encoder.encode(name)
  }

  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    return decodeTokens(this, ids, options.skipSpecialTokens ?? false)
  }

  #encodePlain(text: string, ids: TokenBuffer): void {
    const known = this.#stretches.get(text)
    if (known !== undefined) {
      ids.pushRange(known, 0, known.length)
      return
    }
    const { normalize, preTokenize } = this.#options
    const start = ids.length
    this.#cache.encodeAll(preTokenize(normalize === null ? text : normalize(text)), ids)
    this.#stretches.keep(text, ids, start)
  }

  #encodePiece(piece: string): Uint32Array {
    const bytes = encoder.encode(piece)
    if (this.#options.ignoreMerges) {
      const whole = this.#options.ids.get(bytesToAlphabet(bytes))
      if (whole !== undefined) return Uint32Array.of(whole)
    }
    if (this.#symbols.length < bytes.length) this.#symbols = new Int32Array(bytes.length * 2)
    const symbols = this.#symbols
    let count = 0
    // A byte without a token of its own exists only in a vocabulary that was cut down; it has no id to give.
    for (const byte of bytes) {
      const id = this.#byteIds[byte]!
      if (id !== UNKNOWN_BYTE) symbols[count++] = id
    }
    return new Uint32Array(symbols.subarray(0, mergeSymbols(symbols, count, this.#options.merges)))
  }
}
