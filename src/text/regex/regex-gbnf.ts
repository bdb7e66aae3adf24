/** Converts a regular expression to GBNF, as plain text or as the content of a JSON string. */
import { charSet, charsOf, without } from './char-set.ts'
import type { CharSet } from './char-set.ts'
import { invalid } from '../gbnf/grammar-refusal.ts'
import { gbnfText } from '../gbnf/gbnf-literal.ts'
import { canBeEmpty, choiceOf, repeatedParts, withoutEmpty } from './regex-star.ts'
import type { Regex } from './regex-syntax.ts'

export type Writing = 'plain' | 'in JSON'

/** Characters that JSON writes with a backslash. */
const ESCAPES: readonly (readonly [character: string, written: string])[] = [
  ['"', '\\"'],
  ['\\', '\\\\'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
  ['\b', '\\b'],
  ['\f', '\\f'],
]
const NEVER_RAW = charSet([0, 0x1f], [0x22, 0x22], [0x5c, 0x5c])

/** Can be used anywhere: a literal, a class or a group. */
export function regexGbnf(regex: Regex, writing: Writing): string {
  switch (regex.kind) {
    case 'set':
      return setGbnf(regex.set, writing)
    case 'sequence':
      return sequenceGbnf(regex.parts, writing)
    case 'choice':
      return `( ${regex.options.map((option) => regexGbnf(option, writing)).join(' | ')} )`
    case 'repeat': {
      const { least, most } = regex
      if (most === 0) return '""'
      if (canBeEmpty(regex.part)) return emptyRepeatGbnf(regex.part, most, writing)
      const bounds = least === most ? `${least}` : `${least},${most ?? ''}`
      const part = regexGbnf(regex.part, writing)
      const isOne = regex.part.kind !== 'repeat' && /^[([]/.test(part)
      return `${isOne ? part : `( ${part} )`}{${bounds}}`
    }
    case 'begin':
    case 'end':
    case 'look':
      return '""'
  }
}

/** At most so many repetitions of what can be empty. */
function emptyRepeatGbnf(part: Regex, most: number | undefined, writing: Writing): string {
  const full = most === undefined ? choiceOf(repeatedParts(part)) : withoutEmpty(part)
  if (full === null) return '""'
  return regexGbnf({ kind: 'repeat', part: full, least: 0, most }, writing)
}

function sequenceGbnf(parts: readonly Regex[], writing: Writing): string {
  const pieces: string[] = []
  let text = ''
  const flush = (): void => {
    if (text !== '') pieces.push(gbnfText(writing === 'plain' ? text : jsonInner(text)))
    text = ''
  }
  for (const part of parts) {
    const character = part.kind === 'set' ? onlyCharacter(part.set) : undefined
    if (character !== undefined && character !== '\0') text += character
    else {
      flush()
      pieces.push(regexGbnf(part, writing))
    }
  }
  flush()
  if (pieces.length === 0) return '""'
  return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : `( ${pieces.join(' ')} )`
}

/** One character of the set. */
export function setGbnf(set: CharSet, writing: Writing): string {
  const character = onlyCharacter(set)
  if (character !== undefined && character !== '\0') {
    return gbnfText(writing === 'plain' ? character : jsonInner(character))
  }
  const raw = without(set, writing === 'plain' ? charsOf('\0') : NEVER_RAW)
  const options = raw.length === 0 ? [] : [`[${raw.map(rangeGbnf).join('')}]`]
  if (writing === 'in JSON') {
    const escapes = ESCAPES.filter(([escaped]) => has(set, escaped))
    options.push(...escapes.map(([, written]) => gbnfText(written)))
    // Other control characters only if nothing else is possible: they are never intended.
    if (options.length === 0) options.push(...set.flatMap(unicodeEscapes))
  }
  if (options.length === 0) throw invalid('the pattern has a class that matches nothing')
  return options.length === 1 && options[0] !== undefined
    ? options[0]
    : `( ${options.join(' | ')} )`
}

function unicodeEscapes([first, last]: CharSet[number]): string[] {
  return Array.from({ length: last - first + 1 }, (_, i) =>
    gbnfText(`\\u${(first + i).toString(16).padStart(4, '0')}`),
  )
}

function onlyCharacter(set: CharSet): string | undefined {
  const [range] = set
  const isOne = set.length === 1 && range !== undefined && range[0] === range[1]
  return isOne ? String.fromCodePoint(range[0]) : undefined
}

function has(set: CharSet, character: string): boolean {
  const code = character.codePointAt(0) ?? 0
  return set.some(([first, last]) => first <= code && code <= last)
}

function jsonInner(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

function rangeGbnf([first, last]: CharSet[number]): string {
  return first === last ? codeGbnf(first) : `${codeGbnf(first)}-${codeGbnf(last)}`
}

/** Letters and digits unchanged; characters that might be special as numeric escapes. */
function codeGbnf(code: number): string {
  const character = String.fromCodePoint(code)
  if (/[A-Za-z0-9]/.test(character)) return character
  const digits = code.toString(16)
  if (code <= 0xff) return `\\x${digits.padStart(2, '0')}`
  return code <= 0xffff ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`
}
