/**
 * Follows one JSON value through a text that arrives in pieces: finds its end, and where it becomes invalid.
 *
 * Line breaks and other control characters inside a string, which models write although JSON forbids them, are passed
 * on as escapes. Everything else is passed on unchanged.
 */
import { isJson } from './is-json.ts'

type Place = 'value' | 'first item' | 'first key' | 'key' | 'colon' | 'after' | 'string' | 'word'

const WORD_MAX = 400
const WORD = /[-+.0-9A-Za-z]/

export class JsonScanner {
  /** The text consumed by the last call of `read`. */
  output = ''
  isDone = false
  isWrong = false
  #place: Place = 'value'
  /** Open brackets, outermost first. */
  #open = ''
  #isKey = false
  #isEscaped = false
  #hexLeft = 0
  #word = ''

  /** Returns the index where it stopped: after the value, at an invalid character, or at the end of the text. */
  read(text: string, from: number): number {
    this.output = ''
    let copied = from
    let at = from
    while (at < text.length && !this.isDone && !this.isWrong) {
      if (this.#isInPlainString) {
        at = plainEnd(text, at)
        if (at === text.length) break
      }
      const character = text.charAt(at)
      if (this.#place === 'string' && character < ' ') {
        this.#wrongIf(this.#isEscaped || this.#hexLeft > 0)
        if (this.isWrong) break
        this.output += text.slice(copied, at) + JSON.stringify(character).slice(1, -1)
        copied = at + 1
      } else if (this.#place === 'string') this.#inString(character)
      else if (this.#place === 'word') {
        if (this.#inWord(character)) continue
      } else if (!' \t\r\n'.includes(character)) this.#structure(character)
      if (!this.isWrong) at += 1
    }
    this.output += text.slice(copied, at)
    return at
  }

  #wrongIf(isWrong: boolean): void {
    if (isWrong) this.isWrong = true
  }

  get #isInPlainString(): boolean {
    return this.#place === 'string' && !this.#isEscaped && this.#hexLeft === 0
  }

  #inString(character: string): void {
    if (this.#hexLeft > 0) {
      this.#wrongIf(!/[0-9a-fA-F]/.test(character))
      this.#hexLeft -= 1
    } else if (this.#isEscaped) {
      this.#isEscaped = false
      if (character === 'u') this.#hexLeft = 4
      else this.#wrongIf(!'"\\/bfnrt'.includes(character))
    } else if (character === '\\') this.#isEscaped = true
    else if (character === '"') {
      if (this.#isKey) this.#place = 'colon'
      else this.#valueEnded()
    }
  }

  /** True: the word ended before this character, which has not been consumed. */
  #inWord(character: string): boolean {
    if (WORD.test(character) && this.#word.length < WORD_MAX) {
      this.#word += character
      return false
    }
    this.#wrongIf(!isJson(this.#word))
    if (!this.isWrong) this.#valueEnded()
    return true
  }

  #structure(character: string): void {
    switch (this.#place) {
      case 'first item':
        if (character === ']') this.#close(character)
        else this.#beginValue(character)
        return
      case 'value':
        this.#beginValue(character)
        return
      case 'first key':
      case 'key':
        if (character === '"') this.#beginString(true)
        else if (this.#place === 'first key' && character === '}') this.#close(character)
        else this.isWrong = true
        return
      case 'colon':
        this.#wrongIf(character !== ':')
        this.#place = 'value'
        return
      default:
        if (character === ',') this.#place = this.#open.endsWith('{') ? 'key' : 'value'
        else this.#close(character)
    }
  }

  #beginValue(character: string): void {
    if (character === '"') this.#beginString(false)
    else if (character === '{' || character === '[') {
      this.#open += character
      this.#place = character === '{' ? 'first key' : 'first item'
    } else if (/[-0-9tfn]/.test(character)) {
      this.#word = character
      this.#place = 'word'
    } else this.isWrong = true
  }

  #beginString(isKey: boolean): void {
    this.#isKey = isKey
    this.#place = 'string'
  }

  #close(character: string): void {
    const opening = character === '}' ? '{' : character === ']' ? '[' : ''
    if (opening === '' || !this.#open.endsWith(opening)) {
      this.isWrong = true
      return
    }
    this.#open = this.#open.slice(0, -1)
    this.#valueEnded()
  }

  #valueEnded(): void {
    if (this.#open === '') this.isDone = true
    else this.#place = 'after'
  }
}

/** The end of the plain characters of a string, which are most of a model's output. */
function plainEnd(text: string, from: number): number {
  let at = from
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === 0x22 || code === 0x5c || code < 0x20) break
    at += 1
  }
  return at
}
