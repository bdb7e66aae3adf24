/**
 * SentencePiece vocabularies as a GGUF carries them (`tokenizer.ggml.model` = `llama`): blanks are written `▁`, the
 * neighbouring characters whose joined token has the best score are joined, and what has no token becomes byte
 * tokens. Text is cut before `▁` where no token of the vocabulary can reach over the cut, so that words can be cached.
 */
import { AddedTokenFinder } from './added-token-finder.ts'
import { decodeTokens, wellFormed } from './decode-tokens.ts'
import { mergeSymbols } from './merge-loop.ts'
import type { PairRanks } from './merge-loop.ts'
import { PieceCache } from './piece-cache.ts'
import { TokenBuffer } from './token-buffer.ts'
import type { AddedToken, EncodeOptions, Tokenizer } from './tokenizer.ts'

export interface SpmOptions {
  readonly names: readonly string[]
  readonly scores: ArrayLike<number>
  /** Ids by name that plain text may become: no control tokens, no byte tokens. */
  readonly ids: ReadonlyMap<string, number>
  /** Byte → id of its token. */
  readonly byteIds: ReadonlyMap<number, number>
  readonly addedTokens: readonly AddedToken[]
  /** Text at the start and after a control token begins with a blank of the tokenizer's own. */
  readonly addsSpacePrefix: boolean
  readonly unknownTokenId: number | null
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addsBos: boolean
}

const BLANK = '▁'
const NO_BYTES = new Uint8Array(0)
const CUT_BEFORE_BLANK = /(?<=[^▁])(?=▁)/u
const encoder = new TextEncoder()

export class SpmTokenizer implements Tokenizer {
  readonly vocabSize: number
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addsBos: boolean
  readonly addedTokens: readonly AddedToken[]
  readonly #options: SpmOptions
  readonly #finder: AddedTokenFinder
  readonly #addedById = new Map<number, AddedToken>()
  readonly #byteById = new Map<number, number>()
  readonly #pairs: ScorePairs
  readonly #cutsWords: boolean
  readonly #cache = new PieceCache()

  constructor(options: SpmOptions) {
    this.#options = options
    this.vocabSize = options.names.length
    this.bosTokenId = options.bosTokenId
    this.eosTokenIds = options.eosTokenIds
    this.addsBos = options.addsBos
    this.addedTokens = options.addedTokens
    this.#finder = new AddedTokenFinder(options.addedTokens)
    for (const token of options.addedTokens) this.#addedById.set(token.id, token)
    for (const [byte, id] of options.byteIds) this.#byteById.set(id, byte)
    this.#pairs = new ScorePairs(options)
    this.#cutsWords = ![...options.ids.keys()].some((name) => CUT_BEFORE_BLANK.test(name))
  }

  encode(text: string, options: EncodeOptions): Uint32Array {
    const ids = new TokenBuffer((text.length >> 1) + 8)
    if (options.addBos === true && this.bosTokenId !== null) ids.push(this.bosTokenId)
    let isAfterToken = true
    this.#finder.visit(wellFormed(text), options, {
      onText: (stretch) => {
        this.#encodePlain(
          this.#options.addsSpacePrefix && isAfterToken ? ` ${stretch}` : stretch,
          ids,
        )
        isAfterToken = false
      },
      onToken: (token) => {
        ids.push(token.id)
        isAfterToken = true
      },
    })
    return ids.finish()
  }

  tokenBytes(id: number): Uint8Array {
    const added = this.#addedById.get(id)
    if (added !== undefined) return added.control ? NO_BYTES : encoder.encode(added.text)
    const byte = this.#byteById.get(id)
    if (byte !== undefined) return Uint8Array.of(byte)
    return encoder.encode(this.tokenName(id).replaceAll(BLANK, ' '))
  }

  isSpecial(id: number): boolean {
    return this.#addedById.get(id)?.control === true
  }

  tokenName(id: number): string {
    return this.#options.names[id] ?? ''
  }

  /** The blank that `encode` put in front of the text is taken away again. */
  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    const text = decodeTokens(this, ids, options.skipSpecialTokens ?? false)
    return this.#options.addsSpacePrefix && text.startsWith(' ') ? text.slice(1) : text
  }

  #encodePlain(text: string, ids: TokenBuffer): void {
    const escaped = text.replaceAll(' ', BLANK)
    for (const piece of this.#cutsWords ? escaped.split(CUT_BEFORE_BLANK) : [escaped]) {
      const known = this.#cache.get(piece)
      if (known !== undefined) ids.pushAll(known)
      else {
        const fresh = this.#encodePiece(piece)
        this.#cache.set(piece, fresh)
        ids.pushAll(fresh)
      }
    }
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

/**
 * Pairs are looked up by their joined name. A symbol is a token id, or `vocabSize + n` for the n-th character of the
 * piece that has no token.
 */
class ScorePairs implements PairRanks {
  readonly #names: readonly string[]
  readonly #ids: ReadonlyMap<string, number>
  /** Token id → rank: the place of its score among all scores, best first; equal scores share it. */
  readonly #rankOf: Int32Array
  readonly #unknown: string[] = []

  constructor({ names, scores, ids }: SpmOptions) {
    this.#names = names
    this.#ids = ids
    this.#rankOf = new Int32Array(names.length).fill(-1)
    const score = (id: number): number => scores[id] ?? 0
    const sorted = [...ids.values()].sort((a, b) => score(b) - score(a))
    let rank = -1
    let last: number | null = null
    for (const id of sorted) {
      if (score(id) !== last) rank++
      last = score(id)
      this.#rankOf[id] = rank
    }
  }

  symbolOf(character: string): number {
    const id = this.#ids.get(character)
    if (id !== undefined) return id
    this.#unknown.push(character)
    return this.#names.length + this.#unknown.length - 1
  }

  characterOf(symbol: number): string {
    return this.#unknown[symbol - this.#names.length] ?? ''
  }

  forgetCharacters(): void {
    this.#unknown.length = 0
  }

  rank(left: number, right: number): number {
    const id = this.#ids.get(this.#text(left) + this.#text(right))
    return id === undefined ? -1 : this.#rankOf[id]!
  }

  merged(_rank: number, left: number, right: number): number {
    return this.#ids.get(this.#text(left) + this.#text(right)) ?? left
  }

  #text(symbol: number): string {
    return symbol < this.#names.length ? this.#names[symbol]! : this.characterOf(symbol)
  }
}
