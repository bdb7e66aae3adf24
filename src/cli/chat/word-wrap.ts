/**
 * Wraps a stream of text at spaces so that the edge of the terminal splits no word.
 *
 * A word is held back until the space after it arrives. Line breaks of the text itself are kept.
 */

/** Characters that take two columns: CJK and most emoji. */
const WIDE =
  /[\p{Extended_Pictographic}\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]/u
/** Characters that take no column: combining marks, joiners, variation selectors. */
const NARROW = /\p{Mn}|\p{Me}|[\u200B-\u200F]|[\uFE00-\uFE0F]/u
/** A longer word is printed before its end is known. */
const HELD_MAX = 400

export class WordWrap {
  readonly #columns: number
  #column = 0
  #word = ''
  /** Spaces that are printed only when another word follows on the same line. */
  #blanks = ''

  /** `columns` Infinity: nothing is wrapped and nothing is held back. */
  constructor(columns: number) {
    this.#columns = columns
  }

  /** Returns the text that can be printed now. */
  write(text: string): string {
    if (this.#columns === Number.POSITIVE_INFINITY) return text
    let out = ''
    for (const character of text) {
      if (character === '\n') {
        out += `${this.#takeWord()}\n`
        this.#column = 0
        this.#blanks = ''
      } else if (character === ' ' || character === '\t') {
        out += this.#takeWord()
        this.#blanks += character
      } else {
        this.#word += character
        if (this.#word.length > HELD_MAX) out += this.#takeWord()
      }
    }
    return out
  }

  /** Returns the word that was held back, at the end of the text. */
  end(): string {
    return this.#takeWord()
  }

  #takeWord(): string {
    const word = this.#word
    if (word === '') return ''
    this.#word = ''
    const width = widthOf(word)
    const blanks = this.#blanks
    this.#blanks = ''
    if (this.#column > 0 && this.#column + blanks.length + width > this.#columns) {
      this.#column = width
      return `\n${word}`
    }
    this.#column += blanks.length + width
    return blanks + word
  }
}

export function widthOf(text: string): number {
  let width = 0
  for (const character of text) {
    if (!NARROW.test(character)) width += WIDE.test(character) ? 2 : 1
  }
  return width
}
