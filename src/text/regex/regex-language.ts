/**
 * Regular languages with intersection and complement, for what one pattern alone cannot say: look-ahead, several
 * patterns, a pattern with a format or a length.
 *
 * A language is a number. `derived` gives the language of what may follow a character (Brzozowski's derivative), so
 * the languages that can be reached are the states of an automaton. Equal expressions are one language, which keeps
 * their number small.
 */
import { charSet } from './char-set.ts'
import type { CharSet } from './char-set.ts'
import { patternTooLarge, unsupported } from '../gbnf/grammar-refusal.ts'
import type { RegexBudget } from './regex-budget.ts'
import type { Regex } from './regex-syntax.ts'

export type Language = number

type Node =
  | { readonly kind: 'nothing' | 'empty' }
  | { readonly kind: 'set'; readonly set: CharSet }
  | { readonly kind: 'then'; readonly first: Language; readonly rest: Language }
  | { readonly kind: 'either' | 'both'; readonly parts: readonly Language[] }
  | { readonly kind: 'not'; readonly part: Language }
  | {
      readonly kind: 'times'
      readonly part: Language
      readonly least: number
      readonly most: number
    }

const NODES_MAX = 20_000
const CODE_POINTS = 0x110000
const EVERY: CharSet = charSet([0, CODE_POINTS - 1])

export class RegexLanguages {
  readonly #nodes: Node[] = []
  readonly #isNullable: boolean[] = []
  readonly #ids = new Map<string, Language>()
  readonly #derived: Map<number, Language>[] = []
  readonly #budget: RegexBudget
  readonly #bounds = new Set<number>([0, CODE_POINTS])
  /** No text. */
  readonly nothing: Language
  /** The empty text. */
  readonly empty: Language
  readonly anything: Language

  constructor(budget: RegexBudget) {
    this.#budget = budget
    this.nothing = this.#add('nothing', { kind: 'nothing' }, false)
    this.empty = this.#add('empty', { kind: 'empty' }, true)
    this.anything = this.times(this.set(EVERY), 0, Infinity)
  }

  /** The texts that the pattern matches from beginning to end. */
  whole(regex: Regex): Language {
    return this.#read(regex, { isFirst: true, isLast: true, after: this.empty, isAll: true })
  }

  /** The texts in which the pattern matches somewhere, as JSON Schema defines it. */
  somewhere(regex: Regex): Language {
    if (regex.kind === 'choice')
      return this.either(regex.options.map((option) => this.somewhere(option)))
    const parts = regex.kind === 'sequence' ? regex.parts : [regex]
    const isFirst = parts[0]?.kind === 'begin'
    const isLast = parts.at(-1)?.kind === 'end'
    const after = isLast ? this.empty : this.anything
    const found = this.#sequence(parts, { isFirst, isLast: true, after, isAll: true })
    return isFirst ? found : this.#then(this.anything, found)
  }

  /** Texts of this many characters. */
  ofLength(least: number, most: number): Language {
    return this.times(this.set(EVERY), least, most)
  }

  set(set: CharSet): Language {
    for (const [first, last] of set) {
      this.#bounds.add(first)
      this.#bounds.add(last + 1)
    }
    return this.#add(`[${set.map(([a, b]) => `${a}-${b}`).join()}]`, { kind: 'set', set }, false)
  }

  either(parts: readonly Language[]): Language {
    const options = this.#flat('either', parts).filter((part) => part !== this.nothing)
    if (options.includes(this.anything)) return this.anything
    const [only] = options
    if (only === undefined) return this.nothing
    if (options.length === 1) return only
    const isNullable = options.some((part) => this.isNullable(part))
    return this.#add(`|${options.join()}`, { kind: 'either', parts: options }, isNullable)
  }

  both(parts: readonly Language[]): Language {
    const all = this.#flat('both', parts).filter((part) => part !== this.anything)
    if (all.includes(this.nothing)) return this.nothing
    const [only] = all
    if (only === undefined) return this.anything
    if (all.length === 1) return only
    const isNullable = all.every((part) => this.isNullable(part))
    return this.#add(`&${all.join()}`, { kind: 'both', parts: all }, isNullable)
  }

  not(part: Language): Language {
    const node = this.#node(part)
    if (node.kind === 'not') return node.part
    if (part === this.nothing) return this.anything
    if (part === this.anything) return this.nothing
    return this.#add(`!${part}`, { kind: 'not', part }, !this.isNullable(part))
  }

  times(part: Language, least: number, most: number): Language {
    if (most === 0 || part === this.empty) return this.empty
    if (part === this.nothing) return least === 0 ? this.empty : this.nothing
    if (least === 1 && most === 1) return part
    const isNullable = least === 0 || this.isNullable(part)
    return this.#add(`${part}{${least},${most}}`, { kind: 'times', part, least, most }, isNullable)
  }

  isNullable(language: Language): boolean {
    return this.#isNullable[language] === true
  }

  /** What may follow the character. */
  derived(language: Language, code: number): Language {
    const ofLanguage = (this.#derived[language] ??= new Map())
    const known = ofLanguage.get(code)
    if (known !== undefined) return known
    this.#budget.spend(1)
    const found = this.#derive(this.#node(language), code)
    ofLanguage.set(code, found)
    return found
  }

  /** Ranges of characters that no set tells apart. */
  ranges(): readonly (readonly [first: number, last: number])[] {
    const bounds = [...this.#bounds].toSorted((a, b) => a - b)
    return bounds.slice(0, -1).map((first, index) => [first, (bounds[index + 1] ?? 0) - 1] as const)
  }

  has(language: Language, text: string): boolean {
    let rest = language
    for (const character of text) {
      if (rest === this.nothing) return false
      rest = this.derived(rest, character.codePointAt(0) ?? 0)
    }
    return this.isNullable(rest)
  }

  #read(regex: Regex, context: Context): Language {
    switch (regex.kind) {
      case 'set':
        return this.#then(this.set(regex.set), context.after)
      case 'repeat': {
        if (regex.least === 0 && regex.most === 1)
          return this.either([this.#read(regex.part, context), context.after])
        const middle = { isFirst: false, isLast: false, after: this.empty, isAll: false }
        const part = this.#read(regex.part, middle)
        return this.#then(this.times(part, regex.least, regex.most ?? Infinity), context.after)
      }
      case 'choice':
        return this.either(regex.options.map((option) => this.#read(option, context)))
      case 'sequence':
        return this.#sequence(regex.parts, context)
      default:
        return this.#sequence([regex], context)
    }
  }

  #sequence(parts: readonly Regex[], context: Context): Language {
    const { isFirst, isLast, after, isAll } = context
    const firstReal = parts.findIndex(({ kind }) => kind !== 'begin')
    const lastReal = parts.findLastIndex(({ kind }) => kind !== 'end')
    let rest = after
    for (const [index, part] of [...parts.entries()].toReversed()) {
      const isAtBegin = isFirst && (firstReal < 0 || index <= firstReal)
      const isAtEnd = isLast && index >= lastReal
      if (part.kind === 'begin' ? !isAtBegin : part.kind === 'end' && !isAtEnd)
        throw unsupported("'pattern' with an anchor in the middle")
      if (part.kind === 'begin' || part.kind === 'end') continue
      if (part.kind === 'look') {
        if (!isAll) throw unsupported(`'pattern' with a look-ahead (at character ${part.at})`)
        const seen = this.#begun(part.part)
        rest = this.both([part.isNegated ? this.not(seen) : seen, rest])
      } else rest = this.#read(part, { isFirst: isAtBegin, isLast: isAtEnd, after: rest, isAll })
    }
    return rest
  }

  /** The texts that begin with a match. */
  #begun(regex: Regex): Language {
    if (regex.kind === 'choice')
      return this.either(regex.options.map((option) => this.#begun(option)))
    const parts = regex.kind === 'sequence' ? regex.parts : [regex]
    const after = parts.at(-1)?.kind === 'end' ? this.empty : this.anything
    return this.#sequence(parts, { isFirst: false, isLast: true, after, isAll: true })
  }

  #then(first: Language, rest: Language): Language {
    if (first === this.nothing || rest === this.nothing) return this.nothing
    if (first === this.empty) return rest
    if (rest === this.empty) return first
    const node = this.#node(first)
    // In one order only, so that equal languages get equal expressions.
    if (node.kind === 'then') return this.#then(node.first, this.#then(node.rest, rest))
    const isNullable = this.isNullable(first) && this.isNullable(rest)
    return this.#add(`${first}.${rest}`, { kind: 'then', first, rest }, isNullable)
  }

  #derive(node: Node, code: number): Language {
    switch (node.kind) {
      case 'nothing':
      case 'empty':
        return this.nothing
      case 'set':
        return node.set.some(([first, last]) => first <= code && code <= last)
          ? this.empty
          : this.nothing
      case 'then': {
        const begun = this.#then(this.derived(node.first, code), node.rest)
        return this.isNullable(node.first)
          ? this.either([begun, this.derived(node.rest, code)])
          : begun
      }
      case 'either':
        return this.either(node.parts.map((part) => this.derived(part, code)))
      case 'both':
        return this.both(node.parts.map((part) => this.derived(part, code)))
      case 'not':
        return this.not(this.derived(node.part, code))
      case 'times': {
        const { part, least, most } = node
        const more = this.times(part, Math.max(0, least - 1), most - 1)
        return this.#then(this.derived(part, code), more)
      }
    }
  }

  #flat(kind: 'either' | 'both', parts: readonly Language[]): readonly Language[] {
    const all = parts.flatMap((part) => {
      const node = this.#node(part)
      return node.kind === kind ? node.parts : [part]
    })
    this.#budget.spend(all.length)
    return [...new Set(all)].toSorted((a, b) => a - b)
  }

  #node(language: Language): Node {
    return this.#nodes[language] ?? { kind: 'nothing' }
  }

  #add(key: string, node: Node, isNullable: boolean): Language {
    const known = this.#ids.get(key)
    if (known !== undefined) return known
    const id = this.#nodes.length
    if (id >= NODES_MAX) throw patternTooLarge()
    this.#nodes.push(node)
    this.#isNullable.push(isNullable)
    this.#ids.set(key, id)
    return id
  }
}

interface Context {
  /** Nothing precedes, so `^` holds. */
  readonly isFirst: boolean
  /** Nothing follows but `after`, so `$` holds. */
  readonly isLast: boolean
  readonly after: Language
  /** `after` is all that follows. Not so within a repetition, where look-ahead would see the next one. */
  readonly isAll: boolean
}
