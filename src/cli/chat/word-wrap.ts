/**
 * Breaks a stream of text at blanks so that no word is cut by the edge of a terminal.
 *
 * A word is held back until it is whole; the blank after it is what tells. Text that came in its own lines keeps them.
 */

/** Wide characters take two columns: CJK, and most pictures. */
const WIDE =
  /[\p{Extended_Pictographic}\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]/u
/** What takes none: marks on the character before, joiners. */
const NARROW = /\p{Mn}|\p{Me}|[\u200B-\u200F]|[\uFE00-\uFE0F]/u
/** A word may be as long as a line at most before it is shown. */
const HELD_MAX = 400

export class WordWrap {
  readonly #columns: number
  #column = 0
  #word = ''
  /** A blank that is only shown when a word follows on the same line. */
  #blanks = ''

  /** Infinity: nothing is broken, and nothing held back. */
  constructor(columns: number) {
    this.#columns = columns
  }

  /** What can be shown now. */
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

  /** The word that is held back: nothing more comes. */
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
