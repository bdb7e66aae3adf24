/**
 * Follows the arguments of a call that are written as literals of another language than JSON, in pieces of any size,
 * and converts them to JSON: texts as they arrive, words and keys when they are complete.
 */
import type { Bracket, LiteralLanguage } from './literal-language.ts'

type Place = 'member' | 'separator' | 'value' | 'after' | 'text'

interface Container extends Bracket {
  isEmpty: boolean
}

const NESTING_MAX = 64
const WORD_MAX = 400
const WAITS = -1
const WRONG = -2

export class LiteralScanner {
  /** The JSON produced by the last call of `read`. */
  output = ''
  isDone = false
  isWrong = false
  /** The first value has begun, so these are certainly arguments. */
  hasValue = false
  readonly #language: LiteralLanguage
  readonly #open: Container[] = []
  #place: Place
  #quote = ''
  #isKey = false

  /** `within`: the bracket that has been opened; by default that of the arguments. */
  constructor(language: LiteralLanguage, within: Bracket = language.members) {
    this.#language = language
    this.#open.push({ ...within, isEmpty: true })
    this.#place = within.separator === null ? 'value' : 'member'
  }

  /** Returns the index where it stopped: after the arguments, at an invalid character, or where more text is needed. */
  read(text: string, from: number): number {
    this.output = ''
    let at = from
    while (at < text.length && !this.isDone) {
      const next = this.#step(text, at)
      if (next === WAITS) break
      if (next === WRONG) {
        this.isWrong = true
        break
      }
      at = next
    }
    return at
  }

  #step(text: string, at: number): number {
    if (this.#place === 'text') return this.#inText(text, at)
    const character = text.charAt(at)
    if (/\s/.test(character)) return at + 1
    const container = this.#open.at(-1)
    if (container === undefined) return WRONG
    if (this.#place === 'separator') {
      if (character !== container.separator) return WRONG
      this.output += ':'
      this.#place = 'value'
      return at + 1
    }
    const mayClose = this.#place !== 'value' || container.separator === null
    if (mayClose && character === container.close) return this.#close(container, at)
    if (this.#place === 'after') {
      if (character !== ',') return WRONG
      this.#place = container.separator === null ? 'value' : 'member'
      return at + 1
    }
    return this.#place === 'member'
      ? this.#key(container, text, at)
      : this.#value(container, text, at)
  }

  #close(container: Container, at: number): number {
    this.output += container.separator === null ? ']' : '}'
    this.#open.pop()
    this.#place = 'after'
    this.isDone = this.#open.length === 0
    return at + 1
  }

  #key(container: Container, text: string, at: number): number {
    const { bareKey } = container
    const isQuotedKey = bareKey === null || this.#language.hasQuotedKeys
    const quote = isQuotedKey ? this.#quoteAt(text, at) : null
    if (quote === '') return WAITS
    if (quote !== null) return this.#beginText(container, quote, at, true)
    if (bareKey === null) return WRONG
    bareKey.lastIndex = at
    const [key] = bareKey.exec(text) ?? []
    if (key === undefined || key.length > WORD_MAX) return WRONG
    if (at + key.length === text.length) return WAITS
    this.output += `${container.isEmpty ? '' : ','}${JSON.stringify(key)}`
    container.isEmpty = false
    this.#place = 'separator'
    return at + key.length
  }

  #value(container: Container, text: string, at: number): number {
    const quote = this.#quoteAt(text, at)
    if (quote === '') return WAITS
    if (quote !== null) return this.#beginText(container, quote, at, false)
    const opened = this.#language.brackets[text.charAt(at)]
    if (opened !== undefined) {
      if (this.#open.length > NESTING_MAX) return WRONG
      this.#item(container)
      this.output += opened.separator === null ? '[' : '{'
      this.#open.push({ ...opened, isEmpty: true })
      this.#place = opened.separator === null ? 'value' : 'member'
      return at + 1
    }
    const word = this.#wordAt(text, at)
    if (word === '' || word.length >= WORD_MAX) return WRONG
    if (at + word.length === text.length) return WAITS
    const json = this.#wordJson(word)
    if (json === null) return WRONG
    this.#item(container)
    this.output += json
    this.#place = 'after'
    return at + word.length
  }

  #wordAt(text: string, at: number): string {
    const { bareText } = this.#language
    if (bareText === null) return /^[-+.\w]*/.exec(text.slice(at, at + WORD_MAX))?.[0] ?? ''
    bareText.lastIndex = at
    return bareText.exec(text)?.[0] ?? ''
  }

  #wordJson(word: string): string | null {
    const { bareText } = this.#language
    const json = this.#language.wordJson(word.trim())
    return json === null && bareText !== null ? JSON.stringify(word.trim()) : json
  }

  /** List items need their comma here; an object member got it before its key. */
  #item(container: Container): void {
    if (container.separator === null && !container.isEmpty) this.output += ','
    container.isEmpty = false
    this.hasValue = true
  }

  /** The opening quote at `at`; empty: the text may become one. */
  #quoteAt(text: string, at: number): string | null {
    const rest = text.slice(at, at + 8)
    for (const quote of this.#language.quotes) {
      if (rest.startsWith(quote)) return quote
      if (quote.startsWith(rest)) return ''
    }
    return null
  }

  #beginText(container: Container, quote: string, at: number, isKey: boolean): number {
    if (isKey) {
      if (!container.isEmpty) this.output += ','
      container.isEmpty = false
    } else this.#item(container)
    this.output += '"'
    this.#isKey = isKey
    this.#quote = quote
    this.#place = 'text'
    return at + quote.length
  }

  #inText(text: string, at: number): number {
    if (text.startsWith(this.#quote, at)) {
      this.output += '"'
      this.#place = this.#isKey ? 'separator' : 'after'
      return at + this.#quote.length
    }
    const piece = this.#language.textPiece(text, at, this.#quote)
    if (piece === 'waits') return WAITS
    if (piece === null) return WRONG
    this.output += JSON.stringify(piece.text).slice(1, -1)
    return at + piece.length
  }
}
