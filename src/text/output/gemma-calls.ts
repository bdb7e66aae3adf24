/**
 * Calls of Gemma 4: `call:name{key:<|"|>text<|"|>,count:3,list:[true,null],more:{key:1}}`. Keys stand there without quotes,
 * texts between a token of their own, so that nothing in them is escaped.
 */
import { isJson } from './is-json.ts'
import type { ToolCall } from './output-event.ts'

const QUOTE = '<|"|>'
const NESTING_MAX = 64

/** All calls of a text that consists of nothing else, or null. */
export function gemmaCalls(body: string): readonly ToolCall[] | null {
  const reader = new GemmaReader(body)
  const calls: ToolCall[] = []
  while (!reader.isAtEnd) {
    const name = reader.match(/call:\s*([\w.-]+)\s*(?=\{)/y)
    const argumentsJson = name === null ? null : reader.value(0)
    if (name === null || argumentsJson === null) return null
    calls.push({ name, argumentsJson })
  }
  return calls.length > 0 ? calls : null
}

class GemmaReader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
    this.#skip()
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#text.length
  }

  /** The first group. */
  match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)
    if (found === null) return null
    this.#at += found[0].length
    this.#skip()
    return found[1] ?? ''
  }

  /** A value as JSON, or null. */
  value(depth: number): string | null {
    if (depth > NESTING_MAX) return null
    if (this.#text.startsWith(QUOTE, this.#at)) return this.#quoted()
    if (this.#takes('{')) return this.#members(depth)
    if (this.#takes('[')) return this.#items(depth)
    const json = this.match(/("(?:[^"\\]|\\.)*")/y)
    if (json !== null) return isJson(json) ? json : null
    return this.match(
      /(true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)(?=[\s,\]}]|$)/y,
    )
  }

  #quoted(): string | null {
    const from = this.#at + QUOTE.length
    const end = this.#text.indexOf(QUOTE, from)
    if (end < 0) return null
    this.#at = end + QUOTE.length
    this.#skip()
    return JSON.stringify(this.#text.slice(from, end))
  }

  #members(depth: number): string | null {
    const members: string[] = []
    while (!this.#takes('}')) {
      if (members.length > 0 && !this.#takes(',')) return null
      const key = this.#key()
      const value = key === null || !this.#takes(':') ? null : this.value(depth + 1)
      if (key === null || value === null) return null
      members.push(`${key}:${value}`)
    }
    return `{${members.join(',')}}`
  }

  #key(): string | null {
    if (this.#text.startsWith(QUOTE, this.#at)) return this.#quoted()
    const key = this.match(/"?([^\s"{}[\]:,]+)"?\s*(?=:)/y)
    return key === null ? null : JSON.stringify(key)
  }

  #items(depth: number): string | null {
    const items: string[] = []
    while (!this.#takes(']')) {
      if (items.length > 0 && !this.#takes(',')) return null
      const item = this.value(depth + 1)
      if (item === null) return null
      items.push(item)
    }
    return `[${items.join(',')}]`
  }

  #takes(character: string): boolean {
    if (this.#text.charAt(this.#at) !== character) return false
    this.#at += 1
    this.#skip()
    return true
  }

  #skip(): void {
    while (/\s/.test(this.#text.charAt(this.#at))) this.#at += 1
  }
}
