/**
 * SentencePiece vocabularies, from a GGUF (`tokenizer.ggml.model` = `llama`, tokens with scores) or a `tokenizer.json`
 * (BPE with byte fallback, merges with ranks): blanks are written `▁`, the best neighbouring pair is joined, and what
 * has no token becomes byte tokens. Text is cut before `▁` where no token can reach over the cut, so that words can be
 * cached.
 */
import { decodeTokens, wellFormed } from './decode-tokens.ts'
import { mergeSymbols } from './merge-loop.ts'
import { PieceCache } from './piece-cache.ts'
import type { SymbolPairs } from './symbol-pairs.ts'
import { TokenBuffer } from './token-buffer.ts'
import type { EncodeOptions, Tokenizer } from './tokenizer.ts'
import { VocabularyTokenizer } from './vocabulary-tokenizer.ts'
import type { VocabularyOptions } from './vocabulary-tokenizer.ts'

interface SpmOptions extends VocabularyOptions {
  readonly pairs: SymbolPairs
  /** Ids by name that plain text may become: no control tokens, no byte tokens. */
  readonly ids: ReadonlyMap<string, number>
  /** Byte → id of its token. */
  readonly byteIds: ReadonlyMap<number, number>
  readonly blankPrefix: BlankPrefix
  readonly unknownTokenId: number | null
}

/** Where a text gets a blank of the tokenizer's own in front. */
export interface BlankPrefix {
  /** At the start and behind every added token, only at the start, or nowhere. */
  readonly where: 'stretch' | 'start' | 'never'
  /** Also before a text that begins with a blank already. */
  readonly evenBeforeBlank: boolean
}

const BLANK = '▁'
const BLANK_INSIDE = /[^▁]▁/u
const encoder = new TextEncoder()

export class SpmTokenizer extends VocabularyTokenizer implements Tokenizer {
  readonly #options: SpmOptions
  readonly #byteById = new Map<number, number>()
  readonly #pairs: SymbolPairs
  readonly #cutsWords: boolean
  readonly #buffer = new TokenBuffer()
  readonly #cache = new PieceCache((piece) => this.#encodePiece(piece))

  constructor(options: SpmOptions) {
    super(options)
    this.#options = options
    for (const [byte, id] of options.byteIds) this.#byteById.set(id, byte)
    this.#pairs = options.pairs
    this.#cutsWords = ![...options.ids.keys()].some((name) => BLANK_INSIDE.test(name))
  }

  encode(text: string, options: EncodeOptions): Uint32Array {
    const ids = this.#buffer.clear()
    if (options.addBos === true && this.bosTokenId !== null) ids.push(this.bosTokenId)
    let isStart = true
    let isAfterToken = true
    this.finder.visit(wellFormed(text), options, {
      onText: (stretch) => {
        this.#encodePlain(stretch, this.#takesBlank(stretch, isStart, isAfterToken), ids)
        isStart = false
        isAfterToken = false
      },
      onToken: (token) => {
        ids.push(token.id)
        isStart = false
        isAfterToken = true
      },
    })
    return ids.finish()
  }

  tokenBytes(id: number): Uint8Array {
    const added = this.addedBytes(id)
    if (added !== null) return added
    const byte = this.#byteById.get(id)
    if (byte !== undefined) return Uint8Array.of(byte)
    return encoder.encode(this.tokenName(id).replaceAll(BLANK, ' '))
  }

  /** The blank that `encode` put in front of the text is taken away again. */
  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    const text = decodeTokens(this, ids, options.skipSpecialTokens ?? false)
    return this.#options.blankPrefix.where !== 'never' && text.startsWith(' ')
      ? text.slice(1)
      : text
  }

  #takesBlank(stretch: string, isStart: boolean, isAfterToken: boolean): boolean {
    const { where, evenBeforeBlank } = this.#options.blankPrefix
    if (!evenBeforeBlank && /^[ ▁]/.test(stretch)) return false
    return (where === 'stretch' && isAfterToken) || (where === 'start' && isStart)
  }

  #encodePlain(text: string, takesBlank: boolean, ids: TokenBuffer): void {
    const escaped = (takesBlank ? BLANK : '') + text.replaceAll(' ', BLANK)
    this.#cache.encodeAll(this.#cutsWords ? cutBeforeBlanks(escaped) : [escaped], ids)
  }

  #encodePiece(piece: string): Uint32Array {
    const characters = Array.from(piece)
    const symbols = new Int32Array(characters.length)
    characters.forEach((character, i) => (symbols[i] = this.#pairs.symbolOf(character)))
    const count = mergeSymbols(symbols, symbols.length, this.#pairs)
    const ids = new TokenBuffer(count)
    for (let i = 0; i < count; i++) {
      const symbol = symbols[i]!
      if (symbol < this.vocabSize) ids.push(symbol)
      else this.#pushBytes(this.#pairs.characterOf(symbol), ids)
    }
    this.#pairs.forgetCharacters()
    return ids.finish()
  }

  #pushBytes(character: string, ids: TokenBuffer): void {
    for (const byte of encoder.encode(character)) {
      const id = this.#options.byteIds.get(byte) ?? this.#options.unknownTokenId
      if (id !== null) ids.push(id)
    }
  }
}

/** Pieces that begin with all their blanks: `▁the▁▁fox` is `▁the`, `▁▁fox`. */
function cutBeforeBlanks(text: string): string[] {
  const pieces: string[] = []
  let start = 0
  for (let at = text.indexOf(BLANK, 1); at >= 0; at = text.indexOf(BLANK, at + 1)) {
    if (text.charAt(at - 1) === BLANK) continue
    pieces.push(text.slice(start, at))
    start = at
  }
  pieces.push(text.slice(start))
  return pieces
}
