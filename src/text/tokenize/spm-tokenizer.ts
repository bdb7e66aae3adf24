/**
 * SentencePiece vocabularies, from a GGUF (`tokenizer.ggml.model` = `llama`, tokens with scores) or a
 * `tokenizer.json` (BPE with byte fallback, merges with ranks): blanks are written `▁`, the best neighbouring pair is
 * merged, and characters without a token become byte tokens. Text is cut before `▁` where no token can span the cut,
 * so that words can be cached.
 */
import { decodeTokens } from './decode-tokens.ts'
import { mergeSymbols } from './merge-loop.ts'
import { PieceCache } from './pieces/piece-cache.ts'
import type { SymbolPairs } from './symbol-pairs.ts'
import type { TokenBuffer } from './pieces/token-buffer.ts'
import { StretchEncoder } from './stretch-encoder.ts'
import type { Tokenizer } from './tokenizer.ts'
import { VocabularyTokenizer } from './vocabulary-tokenizer.ts'
import type { VocabularyOptions } from './vocabulary-tokenizer.ts'
import { isBeforeMarkedBlank, markedBlankCut, noCut } from './pieces/word-cuts.ts'

interface SpmOptions extends VocabularyOptions {
  readonly pairs: SymbolPairs
  /** Ids by name that plain text may become: no control and no byte tokens. */
  readonly ids: ReadonlyMap<string, number>
  /** Byte → id of its token. */
  readonly byteIds: ReadonlyMap<number, number>
  readonly blankPrefix: BlankPrefix
  readonly unknownTokenId: number | null
}

/** Where the tokenizer inserts a blank before a text. */
export interface BlankPrefix {
  /** At the start and after every added token, only at the start, or nowhere. */
  readonly where: 'stretch' | 'start' | 'never'
  /** Also before a text that already begins with a blank. */
  readonly evenBeforeBlank: boolean
}

const BLANK = '▁'
const BLANK_INSIDE = /[^▁]▁/u
const encoder = new TextEncoder()

export class SpmTokenizer extends VocabularyTokenizer implements Tokenizer {
  readonly #options: SpmOptions
  readonly #byteById = new Map<number, number>()
  readonly #pairs: SymbolPairs
  protected readonly stretches: StretchEncoder
  readonly #cache = new PieceCache((units, start, end, ids) =>
    this.#encodePiece(textOfUnits(units, start, end), ids),
  )

  constructor(options: SpmOptions) {
    super(options)
    this.#options = options
    for (const [byte, id] of options.byteIds) this.#byteById.set(id, byte)
    this.#pairs = options.pairs
    const cutsWords = ![...options.ids.keys()].some((name) => BLANK_INSIDE.test(name))
    this.stretches = new StretchEncoder({
      addedTokens: options.addedTokens,
      bosTokenId: options.bosTokenId,
      normalize: (stretch, isFirst) =>
        (this.#takesBlank(stretch, isFirst) ? BLANK : '') + stretch.replaceAll(' ', BLANK),
      encodePart: (part, ids) =>
        this.#cache.encodeText(part, cutsWords ? markedBlankCut : noCut, ids),
      isCut: cutsWords ? isBeforeMarkedBlank : null,
    })
  }

  tokenBytes(id: number): Uint8Array {
    const added = this.addedBytes(id)
    if (added !== null) return added
    const byte = this.#byteById.get(id)
    if (byte !== undefined) return Uint8Array.of(byte)
    return encoder.encode(this.tokenName(id).replaceAll(BLANK, ' '))
  }

  /** Removes the blank that `encode` inserted. */
  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    const text = decodeTokens(this, ids, options.skipSpecialTokens ?? false)
    return this.#options.blankPrefix.where !== 'never' && text.startsWith(' ')
      ? text.slice(1)
      : text
  }

  /** A stretch that is not the first one follows an added token. */
  #takesBlank(stretch: string, isFirst: boolean): boolean {
    const { where, evenBeforeBlank } = this.#options.blankPrefix
    if (!evenBeforeBlank && /^[ ▁]/.test(stretch)) return false
    return where === 'stretch' || (where === 'start' && isFirst)
  }

  #encodePiece(piece: string, ids: TokenBuffer): void {
    const characters = Array.from(piece)
    const symbols = new Int32Array(characters.length)
    characters.forEach((character, i) => (symbols[i] = this.#pairs.symbolOf(character)))
    const count = mergeSymbols(symbols, symbols.length, this.#pairs)
    for (let i = 0; i < count; i++) {
      const symbol = symbols[i]!
      if (symbol < this.vocabSize) ids.push(symbol)
      else this.#pushBytes(this.#pairs.characterOf(symbol), ids)
    }
    this.#pairs.forgetCharacters()
  }

  #pushBytes(character: string, ids: TokenBuffer): void {
    for (const byte of encoder.encode(character)) {
      const id = this.#options.byteIds.get(byte) ?? this.#options.unknownTokenId
      if (id !== null) ids.push(id)
    }
  }
}

/** Number of arguments that a function call accepts on every JavaScript engine. */
const UNITS_AT_ONCE = 8192

function textOfUnits(units: Uint16Array, start: number, end: number): string {
  let text = ''
  for (let at = start; at < end; at += UNITS_AT_ONCE) {
    text += String.fromCharCode(...units.subarray(at, Math.min(end, at + UNITS_AT_ONCE)))
  }
  return text
}
