/** Calls written as a Python list: `[get_weather(city="Paris", days=3), get_time()]`. */
import type { ToolCall } from './output-event.ts'

/** All calls of a text that is such a list, or null. */
export function pythonCalls(text: string): readonly ToolCall[] | null {
  const reader = new PythonReader(text.trim())
  try {
    return reader.calls()
  } catch (thrown) {
    if (thrown instanceof NotPython) return null
    throw thrown
  }
}

class NotPython extends Error {}

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  '0': '\0',
  b: '\b',
  f: '\f',
}
const CONSTANTS: Readonly<Record<string, unknown>> = {
  True: true,
  False: false,
  None: null,
  true: true,
  false: false,
  null: null,
}
const NESTING_MAX = 64

class PythonReader {
  readonly #text: string
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  calls(): readonly ToolCall[] {
    this.#expect('[')
    const calls: ToolCall[] = []
    while (!this.#take(']')) {
      calls.push(this.#call())
      if (!this.#take(',')) {
        this.#expect(']')
        break
      }
    }
    if (this.#at !== this.#text.length || calls.length === 0) throw new NotPython()
    return calls
  }

  #call(): ToolCall {
    const name = this.#match(/[A-Za-z_][\w.]*/y)
    this.#expect('(')
    const values = new Map<string, unknown>()
    while (!this.#take(')')) {
      const key = this.#match(/[A-Za-z_]\w*/y)
      this.#expect('=')
      values.set(key, this.#value())
      if (!this.#take(',')) {
        this.#expect(')')
        break
      }
    }
    return { name, argumentsJson: JSON.stringify(Object.fromEntries(values)) }
  }

  #value(): unknown {
    if (++this.#depth > NESTING_MAX) throw new NotPython()
    const value = this.#anyValue()
    this.#depth--
    return value
  }

  #anyValue(): unknown {
    this.#skip()
    const first = this.#text.charAt(this.#at)
    if (first === '"' || first === "'") return this.#string(first)
    if (this.#take('[')) return this.#list(']')
    if (this.#take('(')) return this.#list(')')
    if (this.#take('{')) return this.#dictionary()
    const word = this.#match(/[A-Za-z]+|[-+]?[\d._]+(?:[eE][-+]?\d+)?/y)
    if (Object.hasOwn(CONSTANTS, word)) return CONSTANTS[word]
    const number = Number(word.replaceAll('_', ''))
    if (Number.isNaN(number)) throw new NotPython()
    return number
  }

  #list(close: string): unknown[] {
    const items: unknown[] = []
    while (!this.#take(close)) {
      items.push(this.#value())
      if (!this.#take(',')) {
        this.#expect(close)
        break
      }
    }
    return items
  }

  #dictionary(): unknown {
    const entries: [string, unknown][] = []
    while (!this.#take('}')) {
      const key = this.#value()
      if (typeof key !== 'string') throw new NotPython()
      this.#expect(':')
      entries.push([key, this.#value()])
      if (!this.#take(',')) {
        this.#expect('}')
        break
      }
    }
    return Object.fromEntries(entries)
  }

  #string(quote: string): string {
    let text = ''
    for (this.#at++; this.#at < this.#text.length; this.#at++) {
      const character = this.#text.charAt(this.#at)
      if (character === quote) {
        this.#at++
        return text
      }
      if (character !== '\\') text += character
      else text += this.#escaped()
    }
    throw new NotPython()
  }

  #escaped(): string {
    const character = this.#text.charAt(++this.#at)
    if (character !== 'u') return ESCAPES[character] ?? character
    const code = this.#text.slice(this.#at + 1, this.#at + 5)
    if (!/^[0-9a-fA-F]{4}$/.test(code)) throw new NotPython()
    this.#at += 4
    return String.fromCharCode(Number.parseInt(code, 16))
  }

  #skip(): void {
    while (/\s/.test(this.#text.charAt(this.#at))) this.#at++
  }

  #take(character: string): boolean {
    this.#skip()
    if (this.#text.charAt(this.#at) !== character) return false
    this.#at++
    return true
  }

  #expect(character: string): void {
    if (!this.#take(character)) throw new NotPython()
  }

  #match(pattern: RegExp): string {
    this.#skip()
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    if (found === undefined) throw new NotPython()
    this.#at += found.length
    return found
  }
}
