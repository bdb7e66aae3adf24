/**
 * Reads calls written as JSON: `{"name": …, "arguments": {…}}`, also with `parameters` for `arguments`, inside
 * `function` or not; one call, a list, or several separated by `;` or `,`. Arguments are passed on as they arrive if
 * the name precedes them; otherwise, and if they are double-encoded as a string, when they are complete. Keyed calls
 * have their name as the first key of the object: `{"get_weather": {…}}`.
 */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import { JsonScanner } from './json-scanner.ts'
import { isJson } from './is-json.ts'

type Place = 'between' | 'member' | 'key' | 'colon' | 'begin' | 'value' | 'arguments' | 'after'

interface JsonCallOptions {
  /** Whether a call with this name counts as a call. */
  readonly isCall?: (name: string) => boolean
  readonly isKeyed?: boolean
}

export class JsonCallReader implements CallReader {
  readonly #isCall: (name: string) => boolean
  readonly #isKeyed: boolean
  #place: Place = 'between'
  #scanner = new JsonScanner()
  /** The key or value read so far. */
  #buffer = ''
  #key = ''
  #isInList = false
  #isOver = false
  /** Number of open objects: two inside `function`. */
  #depth = 0
  #name: string | null = null
  #argumentsJson: string | null = null
  #hasStarted = false
  #callCount = 0
  #read = ''

  constructor(options: JsonCallOptions = {}) {
    this.#isCall = options.isCall ?? (() => true)
    this.#isKeyed = options.isKeyed === true
  }

  get unclaimed(): string {
    const isBehindCall = this.#place === 'between' ? this.#callCount > 0 : this.#hasStarted
    return isBehindCall ? '' : this.#read
  }

  get isInArguments(): boolean {
    return this.#place === 'arguments'
  }

  read(text: string, sink: CallSink): Reading {
    let at = 0
    while (at < text.length) {
      const from = at
      at = this.#step(text, at, sink)
      if (at < 0) return { consumed: from, isWrong: true }
      if (this.#scanner.isWrong) {
        this.#note(text.slice(from, at))
        return { consumed: at, isWrong: true }
      }
      this.#note(text.slice(from, at))
    }
    return { consumed: at, isWrong: false }
  }

  end(sink: CallSink, rest: string): void {
    this.#isOver = true
    if (this.#place !== 'arguments') return
    if (rest !== '') sink.arguments(rest)
    sink.end()
    this.#place = 'after'
  }

  cutOff(sink: CallSink): void {
    if (this.#hasStarted || this.#place === 'between' || !this.#start(sink)) return
    if (this.#argumentsJson !== null) sink.arguments(this.#argumentsJson)
    sink.end()
    this.#place = 'after'
  }

  #note(text: string): void {
    if (!this.#hasStarted) this.#read += text
  }

  /** Returns the next index, or -1 if the character belongs to no call. */
  #step(text: string, at: number, sink: CallSink): number {
    switch (this.#place) {
      case 'key':
      case 'value':
      case 'arguments':
        return this.#scan(text, at, sink)
      case 'begin':
        return this.#beginValue(text, at, sink)
      default: {
        const character = text.charAt(at)
        return ' \t\r\n'.includes(character) || this.#takes(character, sink) ? at + 1 : -1
      }
    }
  }

  #takes(character: string, sink: CallSink): boolean {
    if (this.#place === 'between') return this.#between(character)
    if (this.#place === 'colon') {
      this.#place = 'begin'
      return character === ':'
    }
    if (character === '}') return this.#endObject(sink)
    if (this.#place === 'after' && character === ',') {
      this.#place = 'member'
      return true
    }
    if (this.#place !== 'member' || character !== '"') return false
    this.#scanner = new JsonScanner()
    this.#scanner.read('"', 0)
    this.#buffer = '"'
    this.#place = 'key'
    return true
  }

  #between(character: string): boolean {
    if (this.#isOver) return false
    if (character === '{') {
      if (this.#callCount > 0) this.#read = ''
      this.#hasStarted = false
      this.#name = null
      this.#argumentsJson = null
      this.#depth = 1
      this.#place = 'member'
      return true
    }
    if (character === '[' && this.#callCount === 0 && !this.#isInList) {
      this.#isInList = true
      return true
    }
    if (character === ']' && this.#isInList) {
      this.#isOver = true
      return true
    }
    return (character === ',' || character === ';') && this.#callCount > 0
  }

  #beginValue(text: string, at: number, sink: CallSink): number {
    const character = text.charAt(at)
    if (' \t\r\n'.includes(character)) return at + 1
    this.#scanner = new JsonScanner()
    this.#buffer = ''
    if (this.#key === 'function' && character === '{' && this.#depth === 1) {
      this.#depth = 2
      this.#place = 'member'
      return at + 1
    }
    const isStart = isArguments(this.#key) && character === '{' && this.#name !== null
    if (isStart && !this.#hasStarted) {
      if (!this.#start(sink)) return -1
      this.#place = 'arguments'
    } else this.#place = 'value'
    return at
  }

  #scan(text: string, at: number, sink: CallSink): number {
    const stop = this.#scanner.read(text, at)
    if (this.#place === 'arguments') {
      if (this.#scanner.output !== '') sink.arguments(this.#scanner.output)
    } else this.#buffer += this.#scanner.output
    if (!this.#scanner.isDone) return stop
    if (this.#place === 'key') {
      this.#takesKey(String(JSON.parse(this.#buffer)))
      this.#place = 'colon'
      return stop
    }
    if (this.#place === 'arguments') sink.end()
    else if (!this.#takesValue(this.#buffer.trim())) return -1
    this.#place = 'after'
    return stop
  }

  #takesKey(key: string): void {
    this.#key = key
    if (!this.#isKeyed) return
    this.#key = this.#name === null ? 'arguments' : ''
    this.#name ??= key
  }

  #takesValue(json: string): boolean {
    if (isName(this.#key) && this.#name === null) {
      const name: unknown = JSON.parse(json)
      if (typeof name !== 'string' || name === '') return false
      this.#name = name
    } else if (isArguments(this.#key) && this.#argumentsJson === null) {
      this.#argumentsJson = objectText(json)
      return this.#argumentsJson !== null
    }
    return true
  }

  #endObject(sink: CallSink): boolean {
    this.#depth -= 1
    this.#place = 'after'
    if (this.#depth > 0) return true
    if (!this.#hasStarted) {
      if (this.#name === null || !this.#start(sink)) return false
      sink.arguments(this.#argumentsJson ?? '{}')
      sink.end()
    }
    this.#callCount += 1
    this.#place = 'between'
    return true
  }

  #start(sink: CallSink): boolean {
    if (this.#name === null || !this.#isCall(this.#name)) return false
    this.#hasStarted = true
    sink.start(this.#name)
    return true
  }
}

/** Command R7B calls it `tool_name`. */
function isName(key: string): boolean {
  return key === 'name' || key === 'tool_name'
}

/** Inkling calls them `args`. */
function isArguments(key: string): boolean {
  return key === 'arguments' || key === 'parameters' || key === 'args'
}

/** An object unchanged; a double-encoded object decoded. */
function objectText(json: string): string | null {
  if (json.startsWith('{')) return json
  if (json === 'null') return '{}'
  if (!json.startsWith('"')) return null
  const inner = String(JSON.parse(json)).trim()
  if (inner === '') return '{}'
  return inner.startsWith('{') && isJson(inner) ? inner : null
}
