/**
 * Reads calls whose arguments are literals of another language than JSON: `[name(key="text")]` (Python),
 * `call:name{key:1}` (Gemma). A call is reported when its name is complete and its first value begins, or when it
 * ends without one.
 */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import type { LiteralLanguage } from './literal-language.ts'
import { LiteralScanner } from './literal-scanner.ts'

export interface LiteralCallForm {
  readonly language: LiteralLanguage
  /** A call up to the bracket of its arguments; the first group is the name. */
  readonly head: RegExp
  /** The beginning of such a head. */
  readonly headBegin: RegExp
}

const HEAD_MAX = 300

export class LiteralCallReader implements CallReader {
  readonly #form: LiteralCallForm
  readonly #isCall: (name: string) => boolean
  #place: 'between' | 'arguments' | 'over' = 'between'
  #scanner: LiteralScanner
  #isInList = false
  #name = ''
  #hasStarted = false
  #callCount = 0
  /** Arguments of a call that is not certain yet. */
  #pending = ''
  /** Text read since the last call. */
  #read = ''

  /** `isCall`: whether a call with this name counts as a call. */
  constructor(form: LiteralCallForm, isCall: (name: string) => boolean) {
    this.#form = form
    this.#isCall = isCall
    this.#scanner = new LiteralScanner(form.language)
  }

  get unclaimed(): string {
    if (this.#place === 'arguments') return this.#hasStarted ? '' : this.#read
    return this.#callCount > 0 ? '' : this.#read
  }

  get isInArguments(): boolean {
    return this.#place === 'arguments' && this.#hasStarted
  }

  read(text: string, sink: CallSink): Reading {
    let at = 0
    while (at < text.length) {
      const step =
        this.#place === 'arguments' ? this.#readArguments(text, at, sink) : this.#between(text, at)
      if (!this.#hasStarted) this.#read += text.slice(at, at + step.consumed)
      at += step.consumed
      if (step.isWrong || step.consumed === 0) return { consumed: at, isWrong: step.isWrong }
    }
    return { consumed: at, isWrong: false }
  }

  /** An incomplete word, escape or quote is dropped, since its value is unknown. */
  end(sink: CallSink): void {
    if (this.isInArguments) {
      sink.end()
      this.#callCount += 1
      this.#place = 'over'
    }
  }

  #between(text: string, at: number): Reading {
    const character = text.charAt(at)
    if (/\s/.test(character)) return took(1)
    if (this.#place === 'over') return WRONG
    if (character === '[' && this.#callCount === 0 && !this.#isInList) {
      this.#isInList = true
      return took(1)
    }
    if (character === ']' && this.#isInList && this.#callCount > 0) {
      this.#place = 'over'
      return took(1)
    }
    if (',;'.includes(character) && this.#callCount > 0) return took(1)
    const rest = text.slice(at, at + HEAD_MAX)
    const [head, name = ''] = this.#form.head.exec(rest) ?? []
    if (head === undefined) {
      const isBegin = rest.length < HEAD_MAX && this.#form.headBegin.test(rest)
      return isBegin ? took(0) : WRONG
    }
    if (!this.#isCall(name)) return WRONG
    if (this.#callCount > 0) this.#read = ''
    this.#name = name
    this.#hasStarted = false
    this.#pending = '{'
    this.#scanner = new LiteralScanner(this.#form.language)
    this.#place = 'arguments'
    return took(head.length)
  }

  #readArguments(text: string, at: number, sink: CallSink): Reading {
    const scanner = this.#scanner
    const consumed = scanner.read(text, at) - at
    this.#pending += scanner.output
    if (!this.#hasStarted && (scanner.hasValue || scanner.isDone)) {
      this.#hasStarted = true
      sink.start(this.#name)
    }
    if (this.#hasStarted && this.#pending !== '') {
      sink.arguments(this.#pending)
      this.#pending = ''
    }
    if (scanner.isDone) {
      sink.end()
      this.#callCount += 1
      this.#place = 'between'
    }
    return { consumed, isWrong: scanner.isWrong }
  }
}

const WRONG: Reading = { consumed: 0, isWrong: true }

function took(consumed: number): Reading {
  return { consumed, isWrong: false }
}
