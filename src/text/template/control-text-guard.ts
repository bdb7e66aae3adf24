/**
 * Separates user text from template text, so that `<|im_end|>` in a message stays text (no prompt injection by
 * control tokens).
 *
 * Before rendering, the first character of everything in user text that could begin a control token is replaced by a
 * private-use character that does not occur in the input. Templates may trim, slice, split or escape the text: a
 * single replaced character survives all of that, and text without control tokens is rendered unchanged. After
 * rendering, the characters are restored and their positions are reported as literal ranges.
 */
import { BatonError } from '../../base/index.ts'
import { escapePattern } from '../tokenize/escape-pattern.ts'
import type { AddedToken } from '../tokenize/tokenizer.ts'

interface RestoredText {
  readonly text: string
  /** Ascending pairs [start, end) of characters that must not become part of a control token. */
  readonly literalRanges: readonly number[]
}

const PRIVATE_USE_FIRST = 0xe000
const PRIVATE_USE_LAST = 0xf8ff
/** A private-use character, possibly as a JSON escape if the template writes ASCII JSON. */
const MARK = /[\uE000-\uF8FF]|\\u[ef][0-9a-f]{3}/gi
const PUNCTUATION = /^[^\p{L}\p{N}\s]/u

/** The pattern that the guard searches for; built once per tokenizer. */
class ControlTextPattern {
  /** Matches one character that may begin a control token; null if there are no control tokens. */
  readonly #begins: RegExp | null

  constructor(tokens: readonly AddedToken[]) {
    const plain = tokens.filter((token) => !token.control).map((token) => token.text)
    const alternatives = new Set<string>()
    for (const { text, control } of tokens) {
      if (control && text.length > 0) alternatives.add(beginOf(text, plain))
    }
    this.#begins = alternatives.size === 0 ? null : new RegExp([...alternatives].join('|'), 'gu')
  }

  occursIn(text: string): boolean {
    return this.#begins !== null && text.search(this.#begins) >= 0
  }

  mark(text: string, markOf: (character: string) => string): string {
    return this.#begins === null ? text : text.replace(this.#begins, markOf)
  }
}

/**
 * The first character of a control token, if followed by the token's beginning (long enough to differ from tokens
 * that are not control tokens), or at the end of the text, where other text may complete it.
 */
function beginOf(token: string, plain: readonly string[]): string {
  const characters = Array.from(token)
  const [first = ''] = characters
  let length = PUNCTUATION.test(token) ? Math.min(2, characters.length) : characters.length
  const startsPlain = (): boolean =>
    plain.some((text) => text.startsWith(characters.slice(0, length).join('')))
  while (length < characters.length && startsPlain()) length++
  const rest = characters.slice(1, length)
  const ends = rest.map((_, i) => `${escapePattern(rest.slice(0, i).join(''))}\\s*$`)
  return `${escapePattern(first)}(?=${[escapePattern(rest.join('')), ...ends].join('|')})`
}

const patterns = new WeakMap<readonly AddedToken[], ControlTextPattern>()

export function controlTextPatternOf(tokens: readonly AddedToken[]): ControlTextPattern {
  let pattern = patterns.get(tokens)
  if (pattern === undefined) patterns.set(tokens, (pattern = new ControlTextPattern(tokens)))
  return pattern
}

/** The replaced characters of one rendering. */
export class ControlTextGuard {
  readonly #pattern: ControlTextPattern
  readonly #taken: ReadonlySet<number>
  readonly #markByCharacter = new Map<string, string>()
  readonly #characterByMark = new Map<string, string>()
  #nextMark = PRIVATE_USE_FIRST

  /** `texts`: everything that will be rendered, to find unused characters. */
  constructor(pattern: ControlTextPattern, texts: Iterable<string>) {
    this.#pattern = pattern
    this.#taken = privateUseIn(texts)
  }

  protect(text: string): string {
    return this.#pattern.mark(text, (character) => this.#markOf(character))
  }

  restore(rendered: string): RestoredText {
    if (this.#characterByMark.size === 0) return { text: rendered, literalRanges: [] }
    const literalRanges: number[] = []
    let text = ''
    let from = 0
    for (const match of rendered.matchAll(MARK)) {
      const character = this.#characterByMark.get(markIn(match[0]))
      if (character === undefined) continue
      text += rendered.slice(from, match.index)
      literalRanges.push(text.length, text.length + character.length)
      text += character
      from = match.index + match[0].length
    }
    return { text: text + rendered.slice(from), literalRanges }
  }

  #markOf(character: string): string {
    const known = this.#markByCharacter.get(character)
    if (known !== undefined) return known
    while (this.#taken.has(this.#nextMark)) this.#nextMark++
    if (this.#nextMark > PRIVATE_USE_LAST) {
      throw new BatonError(
        'request.invalid_argument',
        'messages contain every private-use character and a control token; remove one of them',
      )
    }
    const mark = String.fromCharCode(this.#nextMark++)
    this.#markByCharacter.set(character, mark)
    this.#characterByMark.set(mark, character)
    return mark
  }
}

function privateUseIn(texts: Iterable<string>): ReadonlySet<number> {
  const found = new Set<number>()
  for (const text of texts) {
    for (const match of text.matchAll(MARK)) found.add(markIn(match[0]).charCodeAt(0))
  }
  return found
}

/** A replaced character, from either of its two forms. */
function markIn(found: string): string {
  return found.length === 1 ? found : String.fromCharCode(Number.parseInt(found.slice(2), 16))
}
