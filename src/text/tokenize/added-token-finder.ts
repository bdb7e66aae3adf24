/**
 * Finds added tokens (control tokens, `<think>` and similar) in a text: leftmost first, the longest at each position.
 *
 * A vocabulary may have thousands of them, so those at a position are looked up by first character, then by length. The
 * positions are found by one regular expression, because a program or a page has a `<` every few words, and a hostile
 * text has nothing else.
 */
import { escapePattern } from './escape-pattern.ts'
import type { AddedToken, EncodeOptions } from './tokenizer.ts'

/** Receives a text in order: plain stretches and the added tokens between them. */
interface AddedTokenVisitor {
  /** `isFirst`: nothing precedes the text. */
  onText(text: string, isFirst: boolean): void
  onToken(token: AddedToken): void
}

export class AddedTokenFinder {
  readonly #byText = new Map<string, AddedToken>()
  /** First UTF-16 unit → lengths of the tokens that begin with it, longest first. */
  readonly #lengths = new Map<number, number[]>()
  /** Matches the next position where a token is; null if there are no added tokens. */
  readonly #starts: RegExp | null

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) {
      if (token.text.length === 0) continue
      this.#byText.set(token.text, token)
      const first = token.text.charCodeAt(0)
      const lengths = this.#lengths.get(first) ?? []
      if (!lengths.includes(token.text.length)) lengths.push(token.text.length)
      this.#lengths.set(first, lengths)
    }
    for (const lengths of this.#lengths.values()) lengths.sort((a, b) => b - a)
    const patterns = [...this.#byText.keys()].map(escapePattern)
    this.#starts = patterns.length === 0 ? null : new RegExp(patterns.join('|'), 'g')
  }

  visit(text: string, options: EncodeOptions, visitor: AddedTokenVisitor): void {
    let textStart = 0
    let from = 0
    const literals = new LiteralRanges(options.literalRanges ?? [])
    for (let at = this.#next(text, from); at >= 0; at = this.#next(text, from)) {
      const token = this.#match(text, at, options.special, literals)
      if (token === null) {
        from = at + 1
        continue
      }
      let textEnd = at
      if (token.stripLeft === true)
        while (textEnd > textStart && isBlank(text, textEnd - 1)) textEnd--
      if (textEnd > textStart) visitor.onText(text.slice(textStart, textEnd), textStart === 0)
      visitor.onToken(token)
      textStart = at + token.text.length
      if (token.stripRight === true)
        while (textStart < text.length && isBlank(text, textStart)) textStart++
      from = textStart
    }
    if (textStart >= text.length) return
    const isFirst = textStart === 0
    visitor.onText(isFirst ? text : text.slice(textStart), isFirst)
  }

  #next(text: string, from: number): number {
    if (this.#starts === null) return -1
    this.#starts.lastIndex = from
    return this.#starts.exec(text)?.index ?? -1
  }

  #match(text: string, at: number, special: boolean, literals: LiteralRanges): AddedToken | null {
    for (const length of this.#lengths.get(text.charCodeAt(at)) ?? []) {
      const token = this.#byText.get(text.slice(at, at + length))
      if (token === undefined) continue
      if (!token.control || (special && !literals.touch(at, at + length))) return token
    }
    return null
  }
}

/** Ascending ranges, queried in ascending order. */
class LiteralRanges {
  readonly #ranges: readonly number[]
  #at = 0

  constructor(ranges: readonly number[]) {
    this.#ranges = ranges
  }

  touch(start: number, end: number): boolean {
    while (this.#at < this.#ranges.length && this.#ranges[this.#at + 1]! <= start) this.#at += 2
    return this.#at < this.#ranges.length && this.#ranges[this.#at]! < end
  }
}

function isBlank(text: string, at: number): boolean {
  const unit = text.charCodeAt(at)
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d)
}
