/**
 * Byte-level BPE, the tokenizer of most models: added tokens are split off, the rest is cut into pieces, and the
 * bytes of each piece are merged by rank. Words and long stretches that were seen before come from bounded caches.
 */
import { alphabetToBytes, byteChar } from './byte-alphabet.ts'
import { decodeTokens } from './decode-tokens.ts'
import { mergeSymbols } from './merge-loop.ts'
import type { MergeTable } from './merge-table.ts'
import { PieceCache } from './pieces/piece-cache.ts'
import type { PreTokenizer } from './pre-tokenizer.ts'
import type { TokenBuffer } from './pieces/token-buffer.ts'
import { isBetweenWords } from './pieces/word-cuts.ts'
import { StretchEncoder } from './stretch-encoder.ts'
import type { Tokenizer } from './tokenizer.ts'
import { UNIT_BYTES_MAX, utf8Into } from './pieces/utf8-units.ts'
import { VocabularyTokenizer } from './vocabulary-tokenizer.ts'
import type { VocabularyOptions } from './vocabulary-tokenizer.ts'

interface ByteLevelBpeOptions extends VocabularyOptions {
  /** Ids by name, without control tokens, which plain text must never become. */
  readonly ids: ReadonlyMap<string, number>
  readonly merges: MergeTable
  readonly preTokenizer: PreTokenizer
  /** Applied to plain text before it is cut. */
  readonly normalize: ((text: string) => string) | null
  /** A piece that is itself a token is used without merging. */
  readonly ignoreMerges: boolean
}

const UNKNOWN_BYTE = -2
/** Buffer for one piece; a longer one gets memory of its own. */
const KEPT_BYTES = 1024
const encoder = new TextEncoder()

export class ByteLevelBpe extends VocabularyTokenizer implements Tokenizer {
  readonly #options: ByteLevelBpeOptions
  readonly #cache = new PieceCache((units, start, end, ids) =>
    this.#encodePiece(units, start, end, ids),
  )
  protected readonly stretches: StretchEncoder
  readonly #byteIds = new Int32Array(256)
  readonly #bytes = new Uint8Array(KEPT_BYTES)
  readonly #symbols = new Int32Array(KEPT_BYTES)

  constructor(options: ByteLevelBpeOptions) {
    super(options)
    this.#options = options
    this.stretches = new StretchEncoder({
      addedTokens: options.addedTokens,
      bosTokenId: options.bosTokenId,
      normalize: (stretch) => stretch,
      encodePart: (part, ids) => this.#encodePlain(part, ids),
      isCut: options.preTokenizer.next === null ? null : isBetweenWords,
    })
    for (let byte = 0; byte < 256; byte++) {
      this.#byteIds[byte] = options.ids.get(byteChar(byte)) ?? UNKNOWN_BYTE
    }
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
    const { normalize, preTokenizer } = this.#options
    const normal = normalize === null ? text : normalize(text)
    if (preTokenizer.next !== null) this.#cache.encodeText(normal, preTokenizer.next, ids)
    else this.#cache.encodePieces(preTokenizer.pieces(normal), ids)
  }

  #encodePiece(units: Uint16Array, start: number, end: number, ids: TokenBuffer): void {
    const { ignoreMerges, merges } = this.#options
    const most = (end - start) * UNIT_BYTES_MAX
    const isKept = most <= this.#bytes.length
    const bytes = isKept ? this.#bytes : new Uint8Array(most)
    const symbols = isKept ? this.#symbols : new Int32Array(most)
    const length = utf8Into(units, start, end, bytes)
    const whole = ignoreMerges ? this.#idOf(bytes, length) : undefined
    if (whole !== undefined) {
      ids.push(whole)
      return
    }
    let count = 0
    // Only a truncated vocabulary has bytes without a token; such a byte has no id.
    for (let i = 0; i < length; i++) {
      const id = this.#byteIds[bytes[i]!]!
      if (id !== UNKNOWN_BYTE) symbols[count++] = id
    }
    count = mergeSymbols(symbols, count, merges)
    for (let i = 0; i < count; i++) ids.push(symbols[i]!)
  }

  #idOf(bytes: Uint8Array, length: number): number | undefined {
    let name = ''
    for (let i = 0; i < length; i++) name += byteChar(bytes[i]!)
    return this.#options.ids.get(name)
  }
}
