/**
 * A `tokenizer.json` of any other kind (Unigram, WordPiece, BPE with steps that Baton's own code does not have), run by
 * the library's models. Added tokens are found by Baton's own code, so that user text cannot become a control token.
 */
import { isRecord, wellFormed } from '../../base/index.ts'
import { AddedTokenFinder } from './added-token-finder.ts'
import { alphabetToBytes } from './byte-alphabet.ts'
import { decodeTokens } from './decode-tokens.ts'
import { libraryPipeline } from './hugging-face-library.ts'
import type { LibraryPipeline } from './hugging-face-library.ts'
import { recordOf } from '../../base/index.ts'
import type { JsonRecord } from '../../base/index.ts'
import { StretchCache } from './pieces/stretch-cache.ts'
import { TokenBuffer } from './pieces/token-buffer.ts'
import type { TokenizerRoles } from './tokenizer-roles.ts'
import type { AddedToken, EncodeOptions, Tokenizer } from './tokenizer.ts'

const NO_BYTES = new Uint8Array(0)
const BYTE_NAME = /^<0x([0-9A-Fa-f]{2})>$/
const encoder = new TextEncoder()

export class LibraryTokenizer implements Tokenizer {
  readonly vocabSize: number
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addsBos: boolean
  readonly addedTokens: readonly AddedToken[]
  readonly #library: LibraryPipeline
  readonly #finder: AddedTokenFinder
  readonly #addedById = new Map<number, AddedToken>()
  readonly #names: string[] = []
  /** Names are written in the alphabet of bytes (`Ġthe`), as the file's decoder or pre-tokenizer says. */
  readonly #isByteLevel: boolean
  readonly #prefixesBlank: boolean
  readonly #buffer = new TokenBuffer()
  /** Two caches, because some tokenizers put a blank before every text, others only at the start. */
  readonly #firstStretches = new StretchCache()
  readonly #laterStretches = new StretchCache()

  constructor(
    json: JsonRecord,
    config: unknown,
    addedTokens: readonly AddedToken[],
    roles: TokenizerRoles,
  ) {
    this.#library = libraryPipeline(
      hideControlTokens(json, addedTokens),
      isRecord(config) ? config : {},
    )
    this.addedTokens = addedTokens
    this.bosTokenId = roles.bosTokenId
    this.eosTokenIds = roles.eosTokenIds
    this.addsBos = roles.addsBos
    this.#finder = new AddedTokenFinder(addedTokens)
    for (const token of addedTokens) this.#addedById.set(token.id, token)
    for (const [name, id] of this.#library.get_vocab()) this.#names[id] = name
    for (const { id, text } of addedTokens) this.#names[id] = text
    for (let id = 0; id < this.#names.length; id++) this.#names[id] ??= ''
    this.vocabSize = this.#names.length
    this.#isByteLevel = [json['decoder'], json['pre_tokenizer']].some(isByteLevel)
    this.#prefixesBlank =
      !this.#isByteLevel &&
      this.#encodeStretch('a', true).length > 0 &&
      this.#bytesOfFirst('a')[0] === 0x20
  }

  encode(text: string, options: EncodeOptions): Uint32Array {
    const ids = this.#buffer.clear()
    if (options.addBos === true && this.bosTokenId !== null) ids.push(this.bosTokenId)
    this.#finder.visit(wellFormed(text), options, {
      onText: (stretch, isFirst) => this.#pushStretch(stretch, isFirst, ids),
      onToken: ({ id }) => ids.push(id),
    })
    return ids.finish()
  }

  tokenBytes(id: number): Uint8Array {
    const added = this.#addedById.get(id)
    if (added !== undefined) return added.control ? NO_BYTES : encoder.encode(added.text)
    const name = this.tokenName(id)
    if (this.#isByteLevel) return alphabetToBytes(name) ?? encoder.encode(name)
    const byte = BYTE_NAME.exec(name)
    if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1] ?? '0', 16))
    return encoder.encode(name.replaceAll('▁', ' '))
  }

  isSpecial(id: number): boolean {
    return this.#addedById.get(id)?.control === true
  }

  tokenName(id: number): string {
    return this.#names[id] ?? ''
  }

  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    const text = decodeTokens(this, ids, options.skipSpecialTokens ?? false)
    return this.#prefixesBlank && text.startsWith(' ') ? text.slice(1) : text
  }

  #bytesOfFirst(text: string): Uint8Array {
    const [first] = this.#encodeStretch(text, true)
    return first === undefined ? NO_BYTES : this.tokenBytes(first)
  }

  #pushStretch(stretch: string, isFirst: boolean, ids: TokenBuffer): void {
    const cache = isFirst ? this.#firstStretches : this.#laterStretches
    cache.encode(stretch, ids, (text) => {
      for (const id of this.#encodeStretch(text, isFirst)) ids.push(id)
    })
  }

  #encodeStretch(text: string, isFirst: boolean): readonly number[] {
    const { normalizer, pre_tokenizer: preTokenizer, model } = this.#library
    const normal = normalizer === null ? text : normalizer(text)
    if (normal.length === 0) return []
    const pieces =
      preTokenizer === null ? [normal] : preTokenizer(normal, { section_index: isFirst ? 0 : 1 })
    const names = model(pieces)
    const unknown = model.unk_token_id
    return names
      .map((name) => model.tokens_to_ids.get(name) ?? unknown)
      .filter((id): id is number => typeof id === 'number')
  }
}

/** A step of the kind `ByteLevel`, alone or in a sequence. */
function isByteLevel(step: unknown): boolean {
  if (!isRecord(step)) return false
  if (step['type'] === 'ByteLevel') return true
  const parts: unknown = step['decoders'] ?? step['pretokenizers']
  return step['type'] === 'Sequence' && Array.isArray(parts) && parts.some(isByteLevel)
}

/**
 * The same file with control tokens renamed to names that cannot occur in text: the models look up pieces of text by
 * name and would find `<s>` in user text.
 */
function hideControlTokens(json: JsonRecord, addedTokens: readonly AddedToken[]): JsonRecord {
  const hidden = new Map<string, string>()
  for (const { id, text, control } of addedTokens) if (control) hidden.set(text, `\0${id}`)
  const rename = (name: unknown): unknown =>
    typeof name === 'string' ? (hidden.get(name) ?? name) : name
  const model = recordOf(json['model'], 'model')
  const vocab = model['vocab']
  const renamed = Array.isArray(vocab)
    ? (vocab as unknown[]).map((row) => (Array.isArray(row) ? [rename(row[0]), row[1]] : row))
    : Object.fromEntries(
        Object.entries(recordOf(vocab, 'model.vocab')).map(([name, id]) => [rename(name), id]),
      )
  const unknown = model['unk_token'] === undefined ? {} : { unk_token: rename(model['unk_token']) }
  return { ...json, added_tokens: [], model: { ...model, vocab: renamed, ...unknown } }
}
