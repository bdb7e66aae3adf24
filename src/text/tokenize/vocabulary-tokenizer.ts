/**
 * What the tokenizers of this room have in common: names of ids, added tokens, and special ids.
 *
 * How text is cut and merged, and which bytes a token has, is up to the subclass.
 */
import type { StretchEncoder } from './stretch-encoder.ts'
import type { AddedToken, EncodeOptions } from './tokenizer.ts'

export interface VocabularyOptions {
  /** Name of each id, including added tokens; an unused id has an empty name. */
  readonly names: readonly string[]
  readonly addedTokens: readonly AddedToken[]
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addsBos: boolean
}

const NO_BYTES = new Uint8Array(0)
const encoder = new TextEncoder()

export abstract class VocabularyTokenizer {
  readonly isByteExact = true
  readonly vocabSize: number
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addsBos: boolean
  readonly addedTokens: readonly AddedToken[]
  protected abstract readonly stretches: StretchEncoder
  readonly #names: readonly string[]
  readonly #addedById = new Map<number, AddedToken>()

  constructor(options: VocabularyOptions) {
    this.vocabSize = options.names.length
    this.bosTokenId = options.bosTokenId
    this.eosTokenIds = options.eosTokenIds
    this.addsBos = options.addsBos
    this.addedTokens = options.addedTokens
    this.#names = options.names
    for (const token of options.addedTokens) this.#addedById.set(token.id, token)
  }

  encode(text: string, options: EncodeOptions): Uint32Array {
    return this.stretches.encode(text, options)
  }

  encodeInSteps(text: string, options: EncodeOptions): Iterator<undefined, Uint32Array> | null {
    return this.stretches.encodeInSteps(text, options)
  }

  isSpecial(id: number): boolean {
    return this.#addedById.get(id)?.control === true
  }

  tokenName(id: number): string {
    return this.#names[id] ?? ''
  }

  /** The bytes of an added token, empty for a control token; null if the id is not an added token. */
  protected addedBytes(id: number): Uint8Array | null {
    const added = this.#addedById.get(id)
    if (added === undefined) return null
    return added.control ? NO_BYTES : encoder.encode(added.text)
  }
}
