/**
 * Parses a grammar in GBNF (llama.cpp's notation) into a tree, for engines that generate texts of a grammar
 * themselves.
 *
 * Throws `request.invalid_argument` for what llama.cpp also rejects: a missing rule, an unterminated literal.
 */
import { invalid } from './grammar-refusal.ts'

export type GbnfNode =
  | {
      readonly kind: 'class'
      readonly isNegated: boolean
      readonly ranges: readonly (readonly [first: number, last: number])[]
    }
  | { readonly kind: 'rule'; readonly name: string }
  | { readonly kind: 'sequence'; readonly parts: readonly GbnfNode[] }
  | { readonly kind: 'choice'; readonly options: readonly GbnfNode[] }
  | {
      readonly kind: 'repeat'
      readonly part: GbnfNode
      readonly least: number
      /** May be Infinity. */
      readonly most: number
    }

export function parseGbnf(gbnf: string): ReadonlyMap<string, GbnfNode> {
  const reader = new GbnfReader(gbnf)
  const rules = reader.rules()
  for (const name of [...reader.named, 'root']) {
    if (!rules.has(name)) throw invalid(`the grammar has no rule '${name}'`)
  }
  return rules
}

const NAME = /[a-zA-Z0-9-]+/y
const COUNTS = /[*+?]|\{\s*(\d{1,9})\s*(,?)\s*(\d{0,9})\s*\}/y
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^]))/y
const NAMED_ESCAPES: Readonly<Record<string, number>> = { t: 9, r: 13, n: 10 }

class GbnfReader {
  readonly named = new Set<string>()
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  rules(): Map<string, GbnfNode> {
    const rules = new Map<string, GbnfNode>()
    this.#skip(true)
    while (this.#at < this.#text.length) {
      const name = this.#expect(NAME, 'the name of a rule')[0]
      this.#skip(false)
      this.#expect(/::=/y, "'::='")
      this.#skip(true)
      rules.set(name, this.#choice(false))
      this.#skip(true)
    }
    return rules
  }

  #choice(isInside: boolean): GbnfNode {
    const options = [this.#sequence(isInside)]
    while (this.#text[this.#at] === '|') {
      this.#at += 1
      this.#skip(true)
      options.push(this.#sequence(isInside))
    }
    const [only] = options
    return options.length === 1 && only !== undefined ? only : { kind: 'choice', options }
  }

  #sequence(isInside: boolean): GbnfNode {
    const parts: GbnfNode[] = []
    for (;;) {
      const next = this.#text[this.#at]
      if (next === undefined || next === '|' || next === ')' || next === '\n' || next === '\r')
        return { kind: 'sequence', parts }
      let part = this.#atom(next)
      this.#skip(isInside)
      for (let counts = this.#counts(); counts !== null; counts = this.#counts()) {
        part = { kind: 'repeat', part, ...counts }
        this.#skip(isInside)
      }
      parts.push(part)
    }
  }

  #atom(next: string): GbnfNode {
    if (next === '"') return this.#literal()
    if (next === '[') return this.#class()
    if (next === '.') {
      this.#at += 1
      return { kind: 'class', isNegated: true, ranges: [] }
    }
    if (next !== '(') {
      const name = this.#expect(NAME, 'a rule, a text or a group')[0]
      this.named.add(name)
      return { kind: 'rule', name }
    }
    this.#at += 1
    this.#skip(true)
    const inside = this.#choice(true)
    this.#expect(/\)/y, "')'")
    return inside
  }

  #literal(): GbnfNode {
    this.#at += 1
    const parts: GbnfNode[] = []
    while (this.#text[this.#at] !== '"') {
      const code = this.#character()
      parts.push({ kind: 'class', isNegated: false, ranges: [[code, code]] })
    }
    this.#at += 1
    return { kind: 'sequence', parts }
  }

  #class(): GbnfNode {
    this.#at += 1
    const isNegated = this.#text[this.#at] === '^'
    if (isNegated) this.#at += 1
    const ranges: [number, number][] = []
    while (this.#text[this.#at] !== ']') {
      const first = this.#character()
      let last = first
      if (this.#text[this.#at] === '-' && this.#text[this.#at + 1] !== ']') {
        this.#at += 1
        last = this.#character()
      }
      ranges.push([first, last])
    }
    this.#at += 1
    return { kind: 'class', isNegated, ranges }
  }

  #character(): number {
    const code = this.#text.codePointAt(this.#at)
    if (code === undefined)
      throw invalid('the grammar is invalid: a literal or character class is not closed')
    if (code !== 0x5c) {
      this.#at += code > 0xffff ? 2 : 1
      return code
    }
    const [, x, u, long, other = ''] = this.#expect(ESCAPE, 'an escape')
    const digits = x ?? u ?? long
    if (digits !== undefined) return Number.parseInt(digits, 16)
    return NAMED_ESCAPES[other] ?? other.codePointAt(0) ?? 0
  }

  #counts(): { least: number; most: number } | null {
    const found = this.#maybe(COUNTS)
    if (found === null) return null
    if (found[0] === '*') return { least: 0, most: Infinity }
    if (found[0] === '+') return { least: 1, most: Infinity }
    if (found[0] === '?') return { least: 0, most: 1 }
    const [, least = '', comma, most = ''] = found
    const bound = comma === '' ? Number(least) : most === '' ? Infinity : Number(most)
    return { least: Number(least), most: bound }
  }

  #skip(withLineBreaks: boolean): void {
    this.#maybe(withLineBreaks ? /(?:[ \t\r\n]|#[^\n]*)*/y : /(?:[ \t]|#[^\n]*)*/y)
  }

  #expect(pattern: RegExp, what: string): RegExpExecArray {
    const found = this.#maybe(pattern)
    if (found !== null) return found
    throw invalid(`the grammar does not parse: expected ${what} at character ${this.#at}`)
  }

  #maybe(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)
    if (found !== null) this.#at += found[0].length
    return found
  }
}
