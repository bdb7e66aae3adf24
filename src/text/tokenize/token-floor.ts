/**
 * A lower bound for the number of tokens of a text, without tokenizing it: a prompt that cannot fit is refused
 * cheaply, whereas tokenizing tens of megabytes takes seconds and delays everyone else.
 *
 * The bytes of a text are divided into five kinds. No token has more bytes of a kind than the maximum over the
 * vocabulary, so there are at least (bytes of that kind) / (maximum per token) tokens. The bound is never too high.
 *
 * Tokenizers that drop unknown characters or merge them into one token (WordPiece, Unigram) have no such bound: a
 * text of any length may be one token. For these there is a length beyond which a text is not tokenized at all.
 */
import type { Tokenizer } from './tokenizer.ts'

/** Letters, digits, blanks, other ASCII, and the rest of Unicode. */
const KINDS = 5
const OTHER = 3
const BEYOND_ASCII = 4
/** NFC composes at most three characters to one; their bytes shrink by less than this factor. */
const COMPOSED_MOST = 4
/** Characters counted between two checks of the bound. */
const STRIDE = 4096
/** SentencePiece's blank, which may also occur in text; and characters that NFC converts to ASCII: K, ; and `. */
const UNCOUNTED: ReadonlySet<number> = new Set([0x2581, 0x212a, 0x37e, 0x1fef])

const ASCII_KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code)
  if (/[A-Za-z]/.test(character)) return 0
  if (/[0-9]/.test(character)) return 1
  return /\s/.test(character) ? 2 : OTHER
})

export class TokenFloor {
  /** Maximum bytes of each kind in one token; Infinity: the kind gives no bound. */
  readonly #mostInToken: Float64Array
  /** Length of the longest token, in characters; null: the tokenizer has a bound. */
  readonly #longestToken: number | null

  constructor(tokenizer: Tokenizer) {
    this.#mostInToken = mostInToken(tokenizer)
    this.#longestToken = tokenizer.isByteExact === true ? null : longestToken(tokenizer)
  }

  /**
   * For a tokenizer without a bound: the maximum number of characters that this many tokens can represent; null:
   * there is a bound. Consecutive blanks count as one, because such tokenizers often drop them.
   */
  charactersMost(tokens: number): number | null {
    return this.#longestToken === null ? null : tokens * this.#longestToken
  }

  /** A lower bound that is exact enough to compare with `limit`: counting stops once it is known to exceed it. */
  atLeast(text: string, limit: number): number {
    const counts = new Float64Array(KINDS)
    for (let at = 0; at < text.length; at += STRIDE) {
      const end = Math.min(text.length, at + STRIDE)
      count(text, at, end, counts)
      const floor = this.#floorOf(counts)
      if (floor > limit || end === text.length) return floor
    }
    return 0
  }

  #floorOf(counts: Float64Array): number {
    let floor = 0
    for (let kind = 0; kind < KINDS; kind++) {
      const tokens = (counts[kind] ?? 0) / (this.#mostInToken[kind] ?? Infinity)
      if (tokens > floor) floor = tokens
    }
    return Math.ceil(floor)
  }
}

function count(text: string, start: number, end: number, counts: Float64Array): void {
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at)
    if (code < 0x80) {
      // A letter before a combining mark may be composed to another character.
      if (!(text.charCodeAt(at + 1) >= 0x300)) addTo(counts, ASCII_KINDS[code] ?? OTHER, 1)
    } else if (!UNCOUNTED.has(code)) {
      const isSurrogate = code >= 0xd800 && code <= 0xdfff
      addTo(counts, BEYOND_ASCII, code < 0x800 || isSurrogate ? 2 : 3)
    }
  }
}

function addTo(counts: Float64Array, kind: number, bytes: number): void {
  counts[kind] = (counts[kind] ?? 0) + bytes
}

function mostInToken(tokenizer: Tokenizer): Float64Array {
  const most = new Float64Array(KINDS).fill(Infinity)
  if (tokenizer.isByteExact !== true) return most
  const hasOwnToken = new Uint8Array(256)
  const largest = new Float64Array(KINDS)
  const learn = (bytes: Uint8Array): void => {
    if (bytes.length === 1) hasOwnToken[bytes[0] ?? 0] = 1
    const counts = new Float64Array(KINDS)
    for (const byte of bytes) addTo(counts, kindOf(byte), 1)
    counts.forEach((value, kind) => {
      if (value > (largest[kind] ?? 0)) largest[kind] = value
    })
  }
  for (let id = 0; id < tokenizer.vocabSize; id++) learn(tokenizer.tokenBytes(id))
  // Control tokens have no bytes, but a prompt may contain their names.
  for (const { text } of tokenizer.addedTokens) learn(new TextEncoder().encode(text))
  for (let kind = 0; kind < KINDS; kind++) {
    // Bytes without a token of their own may be dropped by the tokenizer, so their kind gives no bound.
    const isWhole = hasOwnToken.every((known, byte) => known === 1 || kindOf(byte) !== kind)
    if (isWhole) most[kind] = (largest[kind] ?? 1) * (kind === BEYOND_ASCII ? COMPOSED_MOST : 1)
  }
  return most
}

function longestToken(tokenizer: Tokenizer): number {
  let longest = 1
  for (let id = 0; id < tokenizer.vocabSize; id++) {
    longest = Math.max(longest, tokenizer.tokenName(id).length)
  }
  for (const { text } of tokenizer.addedTokens) longest = Math.max(longest, text.length)
  return longest
}

/** Whether the text has more characters than that; consecutive blanks count as one. */
export function isLongerThan(text: string, charactersMost: number): boolean {
  if (text.length <= charactersMost) return false
  let count = 0
  let wasBlank = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    const isBlank = code === 0x20 || (code >= 0x9 && code <= 0xd)
    if (!(isBlank && wasBlank) && ++count > charactersMost) return true
    wasBlank = isBlank
  }
  return false
}

function kindOf(byte: number): number {
  return byte < 0x80 ? (ASCII_KINDS[byte] ?? OTHER) : BEYOND_ASCII
}

const known = new WeakMap<Tokenizer, TokenFloor>()

/** The bound of a tokenizer, shared; the first call scans its vocabulary. */
export function tokenFloorOf(tokenizer: Tokenizer): TokenFloor {
  let floor = known.get(tokenizer)
  if (floor === undefined) known.set(tokenizer, (floor = new TokenFloor(tokenizer)))
  return floor
}
