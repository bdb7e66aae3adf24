/**
 * Parses the regular expressions that a grammar can express: characters, classes, groups, alternatives, repetitions,
 * look-ahead. Look-behind, back-references, and whatever depends on a locale or flag are refused by name.
 */
import { ANY_CHARACTER, charSet, charsOf, complement, union, without } from './char-set.ts'
import type { CharSet } from './char-set.ts'
import { invalid, unsupported } from '../gbnf/grammar-refusal.ts'

export type Regex =
  | { readonly kind: 'set'; readonly set: CharSet }
  | { readonly kind: 'sequence'; readonly parts: readonly Regex[] }
  | { readonly kind: 'choice'; readonly options: readonly Regex[] }
  | {
      readonly kind: 'repeat'
      readonly part: Regex
      readonly least: number
      readonly most: number | undefined
    }
  | { readonly kind: 'begin' }
  | { readonly kind: 'end' }
  | {
      readonly kind: 'look'
      readonly part: Regex
      readonly isNegated: boolean
      readonly at: number
    }

export const REPEAT_MAX = 2000
const DEPTH_MAX = 32
const LENGTH_MAX = 10_000

const DIGITS = charSet([0x30, 0x39])
const WORD = charSet([0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a])
const BLANKS = charsOf(
  '\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff',
)
const DOT = without(ANY_CHARACTER, charsOf('\n\r\u2028\u2029'))
const CLASSES: Readonly<Record<string, CharSet>> = {
  d: DIGITS,
  D: complement(DIGITS),
  w: WORD,
  W: complement(WORD),
  s: BLANKS,
  S: complement(BLANKS),
}
const CONTROLS: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, '0': 0 }
const REFUSED_GROUPS: readonly (readonly [string, string])[] = [
  ['?<=', 'a look-behind'],
  ['?<!', 'a look-behind'],
  ['?>', 'an atomic group'],
  ['?P=', 'a back-reference'],
]

/**
 * The pattern as it is written. Throws `request.unsupported_parameter` for unsupported constructs,
 * `request.invalid_argument` for an invalid pattern.
 */
export function readRegex(pattern: string): Regex {
  if (pattern.length > LENGTH_MAX)
    throw unsupported(`'pattern' of more than ${LENGTH_MAX} characters`)
  return new RegexReader(pattern).whole()
}

/** Without look-ahead. A match has to be the whole text, with or without `^` and `$`. */
export function parseRegex(pattern: string): Regex {
  return withoutAnchors(readRegex(pattern), true, true)
}

class RegexReader {
  readonly #text: string
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  whole(): Regex {
    const regex = this.#choice()
    if (this.#at < this.#text.length) throw this.#wrong('has a ) too many')
    return regex
  }

  #choice(): Regex {
    if (++this.#depth > DEPTH_MAX) throw this.#refused(`groups nested deeper than ${DEPTH_MAX}`)
    const options = [this.#sequence()]
    while (this.#take('|')) options.push(this.#sequence())
    this.#depth--
    return options.length === 1 && options[0] !== undefined
      ? options[0]
      : { kind: 'choice', options }
  }

  #sequence(): Regex {
    const parts: Regex[] = []
    while (this.#at < this.#text.length && !'|)'.includes(this.#peek())) {
      parts.push(this.#repeated(this.#atom()))
    }
    return { kind: 'sequence', parts }
  }

  #atom(): Regex {
    const character = this.#next()
    switch (character) {
      case '^':
        return { kind: 'begin' }
      case '$':
        return { kind: 'end' }
      case '.':
        return { kind: 'set', set: DOT }
      case '(':
        return this.#group()
      case '[':
        return { kind: 'set', set: this.#class() }
      case '\\':
        return { kind: 'set', set: this.#escaped(false) }
      case '*':
      case '+':
      case '?':
        throw this.#wrong(`has a ${character} with nothing before it`)
      default:
        return { kind: 'set', set: charsOf(character) }
    }
  }

  #group(): Regex {
    const at = this.#at
    const isNegated = this.#text.startsWith('?!', at)
    if (isNegated || this.#text.startsWith('?=', at)) {
      this.#at += 2
      return { kind: 'look', part: this.#untilClosed(), isNegated, at }
    }
    const refused = REFUSED_GROUPS.find(([opening]) => this.#text.startsWith(opening, this.#at))
    if (refused !== undefined) throw this.#refused(refused[1])
    if (!this.#take('?:') && this.#peek() === '?') {
      const name = /^\?P?<\w+>/.exec(this.#text.slice(this.#at, this.#at + 64))?.[0]
      if (name === undefined) throw this.#refused('a flag')
      this.#at += name.length
    }
    return this.#untilClosed()
  }

  #untilClosed(): Regex {
    const inside = this.#choice()
    if (!this.#take(')')) throw this.#wrong('has a group without an end')
    return inside
  }

  #repeated(part: Regex): Regex {
    const bounds = this.#bounds()
    if (bounds === null) return part
    // A lazy quantifier matches the same texts.
    if (!this.#take('?') && this.#peek() === '+') throw this.#refused('a possessive quantifier')
    if ('*+?'.includes(this.#peek()) && this.#peek() !== '') {
      throw this.#wrong('has two quantifiers in a row')
    }
    const [least, most] = bounds
    if (least > REPEAT_MAX || (most ?? 0) > REPEAT_MAX)
      throw this.#refused(`more than ${REPEAT_MAX} repetitions`)
    if (most !== undefined && most < least) throw this.#wrong('has a quantifier out of order')
    if (part.kind === 'begin' || part.kind === 'end') throw this.#refused('an anchor in the middle')
    if (part.kind === 'look') throw this.#refused('a repeated look-ahead')
    return { kind: 'repeat', part, least, most }
  }

  #bounds(): readonly [number, number | undefined] | null {
    if (this.#take('*')) return [0, undefined]
    if (this.#take('+')) return [1, undefined]
    if (this.#take('?')) return [0, 1]
    const braces = /^\{(\d{1,6})(,?)(\d{0,6})\}/.exec(this.#text.slice(this.#at, this.#at + 16))
    if (braces === null) return null
    const [whole, least = '', comma, most = ''] = braces
    this.#at += whole.length
    if (comma === '') return [Number(least + most), Number(least + most)]
    return [Number(least), most === '' ? undefined : Number(most)]
  }

  #class(): CharSet {
    const isNegated = this.#take('^')
    let set: CharSet = []
    while (!this.#take(']')) {
      if (this.#at >= this.#text.length) throw this.#wrong('has a class without an end')
      const first = this.#classMember()
      const isRange = this.#peek() === '-' && ![']', ''].includes(this.#text.charAt(this.#at + 1))
      if (!isRange) {
        set = union(set, first)
        continue
      }
      this.#at++
      const last = this.#classMember()
      const [low] = first
      const [high] = last
      const isOrdered = low !== undefined && high !== undefined && low[0] <= high[0]
      if (!isOrdered || low[0] !== low[1] || high[0] !== high[1])
        throw this.#wrong('has a range that is none')
      set = union(set, [[low[0], high[0]]])
    }
    const members = isNegated ? complement(set) : without(set, complement(ANY_CHARACTER))
    if (members.length === 0) throw this.#wrong('has a class that matches nothing')
    return members
  }

  #classMember(): CharSet {
    const character = this.#next()
    if (character === '[' && /^[:=.]/.test(this.#peek())) throw this.#refused('a named class')
    return character === '\\' ? this.#escaped(true) : charsOf(character)
  }

  #escaped(isInClass: boolean): CharSet {
    const character = this.#next()
    const known = Object.hasOwn(CLASSES, character) ? CLASSES[character] : undefined
    if (known !== undefined) return known
    if (isInClass && character === 'b') return charsOf('\b')
    if (Object.hasOwn(CONTROLS, character) && !(character === '0' && /\d/.test(this.#peek()))) {
      const code = CONTROLS[character] ?? 0
      return [[code, code]]
    }
    if (character === 'x' || character === 'u') return this.#codePoint(character)
    if (/[1-9k]/.test(character)) throw this.#refused('a back-reference')
    if (/[bBAZzG]/.test(character)) throw this.#refused('a boundary')
    if (/[pP]/.test(character)) throw this.#refused('a class by Unicode property')
    if (/[A-Za-z0-9]/.test(character) || character === '')
      throw this.#refused(`the escape \\${character}`)
    return charsOf(character)
  }

  #codePoint(kind: 'x' | 'u'): CharSet {
    const rest = this.#text.slice(this.#at, this.#at + 12)
    const pattern =
      kind === 'x' ? /^([0-9a-fA-F]{2})/ : /^(?:\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{4}))/
    const found = pattern.exec(rest)
    if (found === null) throw this.#wrong(`has an unfinished \\${kind}`)
    this.#at += found[0].length
    const code = Number.parseInt(found[1] ?? found[2] ?? '', 16)
    const set = without([[code, code]], complement(ANY_CHARACTER))
    if (set.length === 0) throw this.#refused('half of a surrogate pair')
    return set
  }

  #peek(): string {
    const code = this.#text.codePointAt(this.#at)
    return code === undefined ? '' : String.fromCodePoint(code)
  }

  #next(): string {
    const character = this.#peek()
    this.#at += character.length
    return character
  }

  #take(text: string): boolean {
    if (!this.#text.startsWith(text, this.#at)) return false
    this.#at += text.length
    return true
  }

  #wrong(what: string): Error {
    return invalid(`the pattern ${what} (at character ${this.#at})`)
  }

  #refused(what: string): Error {
    return unsupported(`'pattern' with ${what} (at character ${this.#at})`)
  }
}

/** Anchors at the ends are redundant; elsewhere they would match nothing, or something else. */
function withoutAnchors(regex: Regex, isFirst: boolean, isLast: boolean): Regex {
  switch (regex.kind) {
    case 'begin':
    case 'end':
      if (regex.kind === 'begin' ? isFirst : isLast) return { kind: 'sequence', parts: [] }
      throw unsupported("'pattern' with an anchor in the middle")
    case 'choice':
      return {
        kind: 'choice',
        options: regex.options.map((option) => withoutAnchors(option, isFirst, isLast)),
      }
    case 'sequence': {
      const firstReal = regex.parts.findIndex((part) => part.kind !== 'begin')
      const lastReal = regex.parts.findLastIndex((part) => part.kind !== 'end')
      const parts = regex.parts.map((part, index) =>
        withoutAnchors(
          part,
          isFirst && (firstReal < 0 || index <= firstReal),
          isLast && index >= lastReal,
        ),
      )
      return { kind: 'sequence', parts }
    }
    case 'repeat':
      return { ...regex, part: withoutAnchors(regex.part, false, false) }
    case 'look':
      throw unsupported(`'pattern' with a look-ahead (at character ${regex.at})`)
    case 'set':
      return regex
  }
}

/** Whether the pattern has look-ahead, for which one expression is not enough. */
export function hasLook(regex: Regex | undefined): boolean {
  switch (regex?.kind) {
    case 'look':
      return true
    case 'choice':
      return regex.options.some(hasLook)
    case 'sequence':
      return regex.parts.some(hasLook)
    case 'repeat':
      return hasLook(regex.part)
    default:
      return false
  }
}
