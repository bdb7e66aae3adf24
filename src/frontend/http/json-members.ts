/**
 * Locates the members of a JSON text without parsing their values: a body is inspected as bytes and never
 * rewritten as a whole.
 *
 * Owns: the structure (a broken one is refused) and the limit of its depth. The content of strings is not
 * checked.
 */
import { BatonError } from '../../base/index.ts'
import { SHORT_TEXT_BYTES, shortText } from './short-texts.ts'

export interface Member {
  /** Decoded, also for keys with escapes. */
  readonly key: string
  /** The opening quote of the key. */
  readonly start: number
  readonly valueStart: number
  /** The position after the value. */
  readonly end: number
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const DEPTH_MAX = 1000
/** Longer strings are checked for being data instead of text. */
const LONG_STRING_BYTES = 2048

export interface Span {
  readonly start: number
  readonly end: number
}

/** True when the string whose content starts here is one that the caller searches for. */
type LooksFor = (bytes: Uint8Array, start: number) => boolean

export class JsonMembers {
  readonly #bytes: Uint8Array
  readonly #looksFor: LooksFor | null
  #at = 0
  /** A searched string was found, as a key or a value, at any depth. */
  hasFound = false
  /** The contents of very long strings, in text order. */
  readonly longStrings: Span[] = []

  constructor(bytes: Uint8Array, looksFor: LooksFor | null = null) {
    this.#bytes = bytes
    this.#looksFor = looksFor
  }

  /** The members of the top-level object. Throws `request.invalid_argument`. */
  top(): readonly Member[] {
    // A byte order mark is skipped.
    const [first, second, third] = this.#bytes
    this.#at = first === 0xef && second === 0xbb && third === 0xbf ? 3 : 0
    if (this.#space() !== OPEN_OBJECT) {
      throw new BatonError('request.invalid_argument', 'the JSON body must be an object')
    }
    const members: Member[] = []
    this.#object(0, members)
    if (this.#at < this.#bytes.length && this.#space() !== undefined) throw this.#broken()
    return members
  }

  /** The members of a nested object; empty for other values. */
  membersAt(start: number): readonly Member[] {
    this.#at = start
    const members: Member[] = []
    if (this.#space() === OPEN_OBJECT) this.#object(0, members)
    return members
  }

  /** The start positions of a list's elements; empty for other values. */
  elementsAt(start: number): readonly number[] {
    this.#at = start
    const elements: number[] = []
    if (this.#space() === OPEN_ARRAY) this.#array(0, elements)
    return elements
  }

  #object(depth: number, members: Member[] | null): void {
    this.#at++
    if (this.#space() === CLOSE_OBJECT) {
      this.#at++
      return
    }
    for (;;) {
      if (this.#space() !== QUOTE) throw this.#broken()
      const start = this.#at
      this.#string()
      const keyEnd = this.#at
      if (this.#space() !== COLON) throw this.#broken()
      this.#at++
      this.#space()
      const valueStart = this.#at
      this.#value(depth + 1)
      if (members !== null) {
        members.push({ key: this.#key(start, keyEnd), start, valueStart, end: this.#at })
      }
      const next = this.#space()
      this.#at++
      if (next === CLOSE_OBJECT) return
      if (next !== COMMA) throw this.#broken()
    }
  }

  #array(depth: number, elements: number[] | null): void {
    this.#at++
    if (this.#space() === CLOSE_ARRAY) {
      this.#at++
      return
    }
    for (;;) {
      this.#space()
      elements?.push(this.#at)
      this.#value(depth + 1)
      const next = this.#space()
      this.#at++
      if (next === CLOSE_ARRAY) return
      if (next !== COMMA) throw this.#broken()
    }
  }

  #value(depth: number): void {
    if (depth > DEPTH_MAX) {
      const text = `the JSON body is nested more than ${DEPTH_MAX} levels deep`
      throw new BatonError('request.invalid_argument', text)
    }
    const byte = this.#bytes[this.#at]
    if (byte === QUOTE) this.#string()
    else if (byte === OPEN_OBJECT) this.#object(depth, null)
    else if (byte === OPEN_ARRAY) this.#array(depth, null)
    else this.#literal()
  }

  /** Moves after the closing quote. */
  #string(): void {
    const bytes = this.#bytes
    const start = this.#at + 1
    let end = bytes.indexOf(QUOTE, start)
    while (end >= 0 && isEscaped(bytes, end, start)) end = bytes.indexOf(QUOTE, end + 1)
    if (end < 0) throw this.#broken()
    if (end - start > LONG_STRING_BYTES) this.longStrings.push({ start, end })
    if (!this.hasFound && this.#looksFor?.(bytes, start) === true) this.hasFound = true
    this.#at = end + 1
  }

  #literal(): void {
    const bytes = this.#bytes
    const start = this.#at
    while (isDigit(bytes[this.#at])) this.#at++
    // Most numbers are single digits or have no leading zero.
    const isOne = this.#at === start + 1 || (this.#at > start && bytes[start] !== ZERO)
    if (isOne && !isOfLiteral(bytes[this.#at])) return
    while (isOfLiteral(bytes[this.#at])) this.#at++
    if (!LITERAL.test(asciiOf(bytes, start, Math.min(this.#at, start + LITERAL_BYTES_MAX)))) {
      throw this.#broken()
    }
  }

  /** Skips white space and returns the next byte; undefined at the end. */
  #space(): number | undefined {
    const bytes = this.#bytes
    for (;;) {
      const byte = bytes[this.#at]
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte
      this.#at++
    }
  }

  #key(start: number, end: number): string {
    const bytes = this.#bytes
    const length = end - start - 2
    if (length <= SHORT_TEXT_BYTES) {
      const key = shortText(bytes, start + 1, end - 1)
      if (!key.includes('\\')) return key
    }
    const written = asciiOf(bytes, start, Math.min(end, start + KEY_BYTES_MAX))
    if (!written.includes('\\')) return written.slice(1, -1)
    try {
      return String(JSON.parse(written))
    } catch {
      return written
    }
  }

  #broken(): BatonError {
    const text = `the body is not valid JSON at byte ${Math.min(this.#at, this.#bytes.length)}`
    return new BatonError('request.invalid_argument', text)
  }
}

/** Longer keys are not names of known fields. */
const KEY_BYTES_MAX = 1024
const LITERAL_BYTES_MAX = 4096
const LITERAL = /^(?:true|false|null|NaN|-?Infinity|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/

const ZERO = 0x30

/** Also false after the end. */
function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= 0x39
}

function isOfLiteral(byte: number | undefined): boolean {
  if (byte === undefined) return false
  const isLetter = (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a)
  return isDigit(byte) || isLetter || byte === 0x2b || byte === 0x2d || byte === 0x2e
}

/** True after an odd number of backslashes. */
function isEscaped(bytes: Uint8Array, at: number, start: number): boolean {
  let before = at
  while (before > start && bytes[before - 1] === BACKSLASH) before--
  return (at - before) % 2 === 1
}

/** One character per byte. */
export function asciiOf(bytes: Uint8Array, start: number, end: number): string {
  if (end - start <= SHORT_TEXT_BYTES) return shortText(bytes, start, end)
  if (end - start > ONE_CALL_BYTES) {
    const middle = start + ONE_CALL_BYTES
    return asciiOf(bytes, start, middle) + asciiOf(bytes, middle, end)
  }
  return String.fromCharCode.apply(null, bytes.subarray(start, end) as unknown as number[])
}

const ONE_CALL_BYTES = 4096
