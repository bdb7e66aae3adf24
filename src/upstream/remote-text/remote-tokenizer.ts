/**
 * A tokenizer whose vocabulary only the server has: texts are encoded there, and the bytes of each token are learned
 * from its answers.
 *
 * Owns: what was learned (at most one entry per token), a bounded cache of encoded texts, and that a control token
 * in a user's text stays text. Encoding is asynchronous (`encodeThere`); the synchronous half of `Tokenizer` knows
 * only what was learned before. Servers of one model share it, and any of them can be asked.
 */
import { BatonError } from '../../base/index.ts'
import type { AddedToken, EncodeOptions, Tokenizer } from '../../text/index.ts'
import { divided } from '../dialects/lost-tokens.ts'
import type { LostTokens } from '../dialects/lost-tokens.ts'
import type { RemoteEncodeOptions, RemoteSource, RemoteToken } from './remote-source.ts'

interface RemoteVocabulary {
  readonly vocabSize: number
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addedTokens: readonly AddedToken[]
}

const TEXTS_MAX = 512
const TEXT_CHARACTERS_MAX = 16_384
/** Most names of control tokens in a user's text that are split: the server is asked once for each part. */
const SPLITS_MAX = 1_024
const NONE = new Uint8Array(0)
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const encoder = new TextEncoder()
const REPLACED = '\ufffd'
/** Put before a token that is asked for alone, because some tokenizers strip the blank of the first one. */
const ANCHOR = 'a'

export class RemoteTokenizer implements Tokenizer, LostTokens {
  readonly addsBos = true
  readonly vocabSize: number
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addedTokens: readonly AddedToken[]
  readonly #sources = new Set<RemoteSource>()
  readonly #control: ReadonlyMap<number, string>
  readonly #idOfControl: ReadonlyMap<string, number>
  readonly #bytes = new Map<number, Uint8Array>()
  readonly #ids = new Map<string, number>()
  readonly #texts = new Map<string, Uint32Array>()
  #anchor: { readonly id: number; readonly text: string } | null = null

  constructor(vocabulary: RemoteVocabulary) {
    this.vocabSize = vocabulary.vocabSize
    this.bosTokenId = vocabulary.bosTokenId
    this.eosTokenIds = vocabulary.eosTokenIds
    this.addedTokens = vocabulary.addedTokens
    const control = vocabulary.addedTokens.filter((token) => token.control)
    this.#control = new Map(control.map(({ id, text }) => [id, text]))
    this.#idOfControl = new Map(control.map(({ id, text }) => [text, id]))
  }

  /** The server can be asked from now on. Returns a function that removes it. */
  addSource(source: RemoteSource): () => void {
    this.#sources.add(source)
    return () => this.#sources.delete(source)
  }

  /** The server's ids of a text. Rejects when no server can be asked. */
  async encodeThere(text: string, options: EncodeOptions): Promise<Uint32Array> {
    const { special, addBos = false, literalRanges = [] } = options
    const key = `${Number(special)}${Number(addBos)}${literalRanges.join(',')}:${text}`
    const known = this.#texts.get(key)
    if (known !== undefined) return known
    const ids: number[] = []
    for (const part of this.#partsOf(text, special, literalRanges)) {
      if (typeof part === 'number') {
        ids.push(part)
        continue
      }
      const wish = {
        special: special && literalRanges.length === 0,
        addBos: addBos && ids.length === 0,
      }
      for (const { id } of await this.#ask(part, wish)) ids.push(id)
    }
    const encoded = Uint32Array.from(ids)
    if (text.length <= TEXT_CHARACTERS_MAX) this.#remember(key, encoded)
    return encoded
  }

  /** Afterwards the bytes of these tokens are known, as far as the server reports them. */
  async learn(ids: readonly number[]): Promise<void> {
    for (const id of new Set(ids)) {
      if (!this.isKnown(id)) await this.#learnAlone(id)
    }
  }

  /** For tokens that form text only together: the server's tokens of that text give the bytes of each. */
  async learnTogether(ids: readonly number[]): Promise<boolean> {
    const text = await this.#textOf(ids)
    if (text.includes(REPLACED)) return false
    await this.#ask(text, { special: false, addBos: false })
    if (ids.every((id) => this.isKnown(id))) return true
    // The server would split the text differently, so only their bytes together are known.
    const [last] = ids.slice(-1)
    for (const id of ids) if (!this.isKnown(id)) this.#learned(id, NONE)
    if (last !== undefined) this.#bytes.set(last, encoder.encode(text))
    return true
  }

  isKnown(id: number): boolean {
    return this.#control.has(id) || this.#bytes.has(id)
  }

  /** For texts that were encoded before; throws `model.load_failed` for others. */
  encode(
    text: string,
    { special, addBos = false, literalRanges = [] }: EncodeOptions,
  ): Uint32Array {
    const known = this.#texts.get(
      `${Number(special)}${Number(addBos)}${literalRanges.join(',')}:${text}`,
    )
    if (known !== undefined) return known
    throw new BatonError(
      'model.load_failed',
      'the tokenizer of the model is needed here, not only at its engine: give --model',
    )
  }

  tokenBytes(id: number): Uint8Array {
    return this.#control.has(id) ? NONE : (this.#bytes.get(id) ?? NONE)
  }

  isSpecial(id: number): boolean {
    return this.#control.has(id)
  }

  tokenName(id: number): string {
    return this.#control.get(id) ?? decoder.decode(this.#bytes.get(id) ?? NONE)
  }

  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    const pieces: Uint8Array[] = []
    for (const id of Array.from(ids)) {
      const name = this.#control.get(id)
      if (name === undefined) pieces.push(this.tokenBytes(id))
      else if (options.skipSpecialTokens === false) pieces.push(encoder.encode(name))
    }
    return decoder.decode(Buffer.concat(pieces))
  }

  /** From learned tokens: the bytes of the text in exactly this many tokens. */
  before(text: string, lastId: number, count: number): readonly number[] | null {
    const bytes = Buffer.from(encoder.encode(text)).toString('latin1')
    const last = Buffer.from(this.tokenBytes(lastId)).toString('latin1')
    if (last === '' || !bytes.endsWith(last)) return null
    return divided(bytes.slice(0, bytes.length - last.length), count, this.#ids)
  }

  /** Control tokens of the template by id, between texts without any. */
  #partsOf(
    text: string,
    special: boolean,
    literalRanges: readonly number[],
  ): readonly (string | number)[] {
    if (!special || literalRanges.length === 0) {
      return special || this.#knowsPlainText ? [text] : this.#withoutControl(text)
    }
    const parts: (string | number)[] = []
    let from = 0
    for (const { at, name, id } of this.#controlIn(text)) {
      if (at < from || touches(literalRanges, at, at + name.length)) continue
      if (at > from) for (const part of this.#plain(text.slice(from, at))) parts.push(part)
      parts.push(id)
      from = at + name.length
    }
    if (from < text.length) for (const part of this.#plain(text.slice(from))) parts.push(part)
    return parts
  }

  #plain(text: string): readonly string[] {
    return this.#knowsPlainText ? [text] : this.#withoutControl(text)
  }

  /** The name of a control token is not recognised when it is split over two texts. */
  #withoutControl(text: string): readonly string[] {
    const parts: string[] = []
    let from = 0
    const found = this.#controlIn(text)
    if (found.length > SPLITS_MAX) {
      const reason = `the text has the names of ${found.length} control tokens`
      throw new BatonError('request.invalid_argument', `${reason}, the limit is ${SPLITS_MAX}`)
    }
    for (const { at } of found) {
      if (at < from) continue
      parts.push(text.slice(from, at + 1))
      from = at + 1
    }
    parts.push(text.slice(from))
    return parts.filter((part) => part !== '')
  }

  #controlIn(text: string): readonly { at: number; name: string; id: number }[] {
    const found: { at: number; name: string; id: number }[] = []
    for (const [name, id] of this.#idOfControl) {
      for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + name.length)) {
        found.push({ at, name, id })
      }
    }
    return found.toSorted((a, b) => a.at - b.at || b.name.length - a.name.length)
  }

  get #knowsPlainText(): boolean {
    return [...this.#sources].every((source) => source.knowsPlainText)
  }

  async #learnAlone(id: number): Promise<void> {
    const anchor = (this.#anchor ??= await this.#findAnchor())
    const text = await this.#decodeThere([anchor.id, id])
    const own = text.startsWith(anchor.text) ? text.slice(anchor.text.length) : text
    if (!own.includes(REPLACED)) this.#learned(id, encoder.encode(own))
  }

  async #textOf(ids: readonly number[]): Promise<string> {
    const anchor = (this.#anchor ??= await this.#findAnchor())
    return (await this.#decodeThere([anchor.id, ...ids])).slice(anchor.text.length)
  }

  async #findAnchor(): Promise<{ readonly id: number; readonly text: string }> {
    const [first] = await this.#ask(ANCHOR, { special: false, addBos: false })
    const id = first?.id ?? 0
    return { id, text: await this.#decodeThere([id]) }
  }

  async #ask(text: string, options: RemoteEncodeOptions): Promise<readonly RemoteToken[]> {
    const tokens = await this.#any((source) => source.encode(text, options))
    for (const { id, bytes } of tokens) if (bytes !== null) this.#learned(id, bytes)
    return tokens
  }

  #decodeThere(ids: readonly number[]): Promise<string> {
    return this.#any((source) => source.decode(ids))
  }

  async #any<T>(call: (source: RemoteSource) => Promise<T>): Promise<T> {
    let failure: unknown = new BatonError(
      'backend.worker_unavailable',
      'no engine can tokenise now',
    )
    for (const source of this.#sources) {
      try {
        return await call(source)
      } catch (thrown) {
        failure = thrown
      }
    }
    throw failure
  }

  #learned(id: number, bytes: Uint8Array): void {
    if (this.#control.has(id) || this.#bytes.has(id) || id >= this.vocabSize) return
    this.#bytes.set(id, bytes)
    const key = Buffer.from(bytes).toString('latin1')
    if (key !== '' && !this.#ids.has(key)) this.#ids.set(key, id)
  }

  #remember(key: string, ids: Uint32Array): void {
    this.#texts.set(key, ids)
    if (this.#texts.size <= TEXTS_MAX) return
    const [oldest] = this.#texts.keys()
    if (oldest !== undefined) this.#texts.delete(oldest)
  }
}

function touches(ranges: readonly number[], from: number, to: number): boolean {
  for (let i = 0; i + 1 < ranges.length; i += 2) {
    if (from < (ranges[i + 1] as number) && to > (ranges[i] as number)) return true
  }
  return false
}
