/** How Python and Gemma's notation write values. */
import { isJson } from './is-json.ts'

export interface Bracket {
  readonly close: string
  /** Between a key and its value; null: the bracket is a list. */
  readonly separator: string | null
  /** Keys without quotes. Sticky. */
  readonly bareKey: RegExp | null
}

export interface LiteralLanguage {
  /** The arguments of a call; the opening bracket belongs to the call's head. */
  readonly members: Bracket
  readonly brackets: Readonly<Record<string, Bracket>>
  /** Quotes that begin and end a text. */
  readonly quotes: readonly string[]
  /** Keys may also be quoted. */
  readonly hasQuotedKeys: boolean
  /** A value without quotes that is no number or constant is a text: its characters. Sticky; null: it is invalid. */
  readonly bareText: RegExp | null
  /** A number or constant as JSON, or null. */
  wordJson(word: string): string | null
  /** The next piece of a text, without its closing quote: its value and length. Null: it is invalid. */
  textPiece(text: string, at: number, quote: string): TextPiece | 'waits' | null
}

interface TextPiece {
  readonly text: string
  readonly length: number
}

const LIST: Bracket = { close: ']', separator: null, bareKey: null }

/** Escapes in Python string literals; the last two are a line continuation, and JSON's escaped slash. */
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  a: '\u0007',
  b: '\b',
  f: '\f',
  v: '\v',
  '\\': '\\',
  "'": "'",
  '"': '"',
  '\n': '',
  '/': '/',
}
/** Number of hexadecimal digits after `\x`, `\u` and `\U`. */
const HEX_DIGITS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 }
const CODE_POINT_MAX = 0x10ffff
/** Models mix the constants of Python and JSON. */
const CONSTANTS: Readonly<Record<string, string>> = {
  True: 'true',
  False: 'false',
  None: 'null',
  true: 'true',
  false: 'false',
  null: 'null',
}

export const PYTHON: LiteralLanguage = {
  members: { close: ')', separator: '=', bareKey: /[A-Za-z_]\w*/y },
  brackets: {
    '[': LIST,
    '(': { ...LIST, close: ')' },
    '{': { close: '}', separator: ':', bareKey: null },
  },
  quotes: ['"""', "'''", '"', "'"],
  hasQuotedKeys: false,
  bareText: null,
  wordJson(word) {
    if (Object.hasOwn(CONSTANTS, word)) return CONSTANTS[word] ?? null
    if (isJson(word)) return word
    if (!/^[-+]?[\d._]+(?:[eE][-+]?\d+)?$/.test(word)) return null
    const number = Number(word.replaceAll('_', ''))
    return Number.isFinite(number) ? JSON.stringify(number) : null
  },
  textPiece: (text, at, quote) =>
    text.charAt(at) === '\\' ? escaped(text, at + 1) : plain(text, at, [quote, '\\']),
}

/**
 * Texts are enclosed in a special token (`<|"|>`, or `<escape>` in FunctionGemma), so that nothing in them is
 * escaped.
 */
export function gemmaLanguage(quote: string, hasBareTexts: boolean): LiteralLanguage {
  const members: Bracket = { close: '}', separator: ':', bareKey: /[^\s"<{}[\]:,]+/y }
  return {
    members,
    brackets: { '[': LIST, '{': members },
    quotes: [quote, '"'],
    hasQuotedKeys: true,
    bareText: hasBareTexts ? /[^,{}[\]<"]*/y : null,
    wordJson: (word) => (isJson(word) ? word : null),
    textPiece: (text, at, open) =>
      open === '"' && text.charAt(at) === '\\'
        ? escaped(text, at + 1)
        : plain(text, at, open === '"' ? [open, '\\'] : [open]),
  }
}

/** Text up to the first terminator, without a possible beginning of one, and without half a surrogate pair. */
function plain(text: string, at: number, ends: readonly string[]): TextPiece | 'waits' {
  let end = text.length
  for (const mark of ends) {
    const found = text.indexOf(mark, at)
    if (found >= 0) end = Math.min(end, found)
  }
  if (end === text.length) {
    for (const mark of ends) {
      let length = Math.min(mark.length - 1, text.length - at)
      while (length > 0 && !text.endsWith(mark.slice(0, length))) length -= 1
      end = Math.min(end, text.length - length)
    }
    if (end === text.length && /[\ud800-\udbff]$/.test(text)) end -= 1
  }
  return end <= at ? 'waits' : { text: text.slice(at, end), length: end - at }
}

/** `at`: the index after the backslash. */
function escaped(text: string, at: number): TextPiece | 'waits' | null {
  const character = text.charAt(at)
  if (character === '') return 'waits'
  const [digits] = /^[0-7]{1,3}/.exec(text.slice(at, at + 3)) ?? []
  if (digits !== undefined) {
    if (digits.length < 3 && at + digits.length === text.length) return 'waits'
    return { text: String.fromCharCode(Number.parseInt(digits, 8)), length: 1 + digits.length }
  }
  const length = HEX_DIGITS[character]
  // An unknown escape is not an escape: Python keeps the backslash.
  if (length === undefined) return { text: ESCAPES[character] ?? `\\${character}`, length: 2 }
  const code = text.slice(at + 1, at + 1 + length)
  if (!/^[0-9a-fA-F]*$/.test(code)) return null
  if (code.length < length) return 'waits'
  const value = Number.parseInt(code, 16)
  return value > CODE_POINT_MAX ? null : { text: String.fromCodePoint(value), length: 2 + length }
}
