/**
 * Where user text could begin a control token. Written out instead of a regular expression, because a match must be
 * cheap: a hostile text has tens of millions.
 */
import { scan } from './paced-scan.ts'
import type { Pace } from './paced-scan.ts'
import { escapePattern } from '../tokenize/escape-pattern.ts'
import type { AddedToken } from '../tokenize/tokenizer.ts'

const PUNCTUATION = /^[^\p{L}\p{N}\s]/u
const UTF16_UNITS = 0x1_0000

/** One character of user text that is replaced if it is followed by `rest`, or at the end of the text by its beginning. */
interface Beginning {
  readonly first: string
  readonly rest: string
  /** The proper beginnings of `rest`: other text may complete them. */
  readonly cut: readonly string[]
}

/** Built once per tokenizer. */
export class ControlTextPattern {
  /** Matches the first characters of control tokens. */
  readonly candidates: RegExp
  readonly #beginnings: readonly Beginning[]
  /** 1 for a UTF-16 unit that begins a control token. */
  readonly #isFirst = new Uint8Array(UTF16_UNITS)

  constructor(tokens: readonly AddedToken[]) {
    const plain = tokens.filter((token) => !token.control).map((token) => token.text)
    const byKey = new Map<string, Beginning>()
    for (const { text, control } of tokens) {
      if (!control || text.length === 0) continue
      const beginning = beginningOf(text, plain)
      byKey.set(beginning.first + beginning.rest, beginning)
    }
    this.#beginnings = [...byKey.values()]
    const firsts = new Set(this.#beginnings.map(({ first }) => first))
    for (const first of firsts) this.#isFirst[first.charCodeAt(0)] = 1
    this.candidates = new RegExp([...firsts].map(escapePattern).join('|') || '(?!)', 'g')
  }

  /** Decides for nearly every text that no control token occurs in it, quickly. */
  mayOccurIn(text: string): boolean {
    return text.search(this.candidates) >= 0
  }

  *occursIn(text: string, pace: Pace): Generator<undefined, boolean> {
    const end = endOf(text)
    let occurs = false
    const look = (from: number, to: number): number => {
      for (let at = from; at < to && !occurs; at++) occurs = this.lengthAt(text, at, end) > 0
      return occurs ? text.length : to
    }
    yield* scan(text, this.candidates, { look }, pace)
    return occurs
  }

  /** UTF-16 units of the character at `at` if it may begin a control token, else 0. `end`: see `endOf`. */
  lengthAt(text: string, at: number, end: number): number {
    if (this.#isFirst[text.charCodeAt(at)] === 0) return 0
    for (const { first, rest, cut } of this.#beginnings) {
      if (!isAt(text, first, at)) continue
      const next = at + first.length
      if (isAt(text, rest, next)) return first.length
      if (next + rest.length <= end) continue
      if (cut.some((part) => next + part.length >= end && isAt(text, part, next)))
        return first.length
    }
    return 0
  }
}

/** Where the blanks at the end of a text begin. */
export function endOf(text: string): number {
  return text.trimEnd().length
}

/** As `startsWith`, but without a call for the first character, which decides nearly always. */
function isAt(text: string, part: string, at: number): boolean {
  if (part.length === 0) return true
  if (text.charCodeAt(at) !== part.charCodeAt(0)) return false
  return part.length === 1 || text.startsWith(part, at)
}

/** Long enough to differ from the beginnings of tokens that are not control tokens. */
function beginningOf(token: string, plain: readonly string[]): Beginning {
  const characters = Array.from(token)
  const [first = ''] = characters
  let length = PUNCTUATION.test(token) ? Math.min(2, characters.length) : characters.length
  const startsPlain = (): boolean =>
    plain.some((text) => text.startsWith(characters.slice(0, length).join('')))
  while (length < characters.length && startsPlain()) length++
  const rest = characters.slice(1, length)
  const cut = rest.map((_, i) => rest.slice(0, i).join(''))
  return { first, rest: rest.join(''), cut }
}

const patterns = new WeakMap<readonly AddedToken[], ControlTextPattern>()

export function controlTextPatternOf(tokens: readonly AddedToken[]): ControlTextPattern {
  let pattern = patterns.get(tokens)
  if (pattern === undefined) patterns.set(tokens, (pattern = new ControlTextPattern(tokens)))
  return pattern
}
