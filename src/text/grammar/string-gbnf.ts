/** JSON schema strings as GBNF: by length, pattern or format. Includes the quotes, but no trailing blanks. */
import { automatonGbnf } from '../regex/automaton-gbnf.ts'
import { countBound } from './count-bound.ts'
import { attempted, nothingValid, unsupported } from '../gbnf/grammar-refusal.ts'
import type { Schema } from './json-schema-types.ts'
import { patternsOf } from './pattern-list.ts'
import { fittedRegex } from '../regex/regex-fit.ts'
import { regexGbnf } from '../regex/regex-gbnf.ts'
import { RegexLanguages } from '../regex/regex-language.ts'
import { nestedRepeats } from '../regex/regex-length.ts'
import { hasLook, parseRegex, readRegex } from '../regex/regex-syntax.ts'
import type { Regex } from '../regex/regex-syntax.ts'
import type { SchemaContext } from './schema-context.ts'
import { formatPattern } from './string-formats.ts'

/** Nested repetitions, which llama.cpp expands, are limited to texts of this length. */
const NESTED_MAX = 1000
const NESTED_LENGTH_MAX = 250
/** Where an automaton is too large, texts are at most this much longer than they have to be. */
const SHORTER = 24
/** Limit for the length of a length-bounded string. */
const LENGTH_MAX = 100_000

interface StringContext {
  readonly schema: SchemaContext
  /** Adds the rules that `write` makes for a new name, and returns the name; null: `write` made none. */
  define(write: (name: string) => string | null): string | null
}

export function stringGbnf(schema: Schema, context: StringContext): string {
  const { drop } = context.schema
  const least = countBound(schema, 'minLength', drop, LENGTH_MAX) ?? 0
  const most = countBound(schema, 'maxLength', drop, LENGTH_MAX)
  if (most !== undefined && most < least) throw nothingValid("'maxLength' is below 'minLength'")
  const bounds = { least, most }
  const patterns = patternsOf(schema['pattern'])
  const form = formatPattern(schema['format'])
  if (patterns.length > 0) {
    const matched = attempted(
      () => patternsGbnf(patterns, form, bounds, context) ?? withoutFormat(patterns),
    )
    if ('value' in matched) return quoted(matched.value)
    drop('pattern', matched.what)
  }
  const fitted = form === undefined ? null : fittedRegex(parseRegex(form), least, most ?? Infinity)
  if (fitted !== null) return quoted(regexGbnf(fitted, 'in JSON'))
  if (form !== undefined) drop('format', `'format' of which no text was found with these lengths`)
  return quoted(least > 0 || most !== undefined ? counted(least, most) : 'char*')

  function withoutFormat(all: readonly string[]): string {
    const matched = form === undefined ? null : patternsGbnf(all, undefined, bounds, context)
    if (matched === null) throw nothingValid("no text matches 'pattern' and has such a length")
    drop('format', `'format' of which no text was found that matches 'pattern'`)
    return matched
  }
}

interface Bounds {
  readonly least: number
  readonly most: number | undefined
}

/** In hundreds, because llama.cpp expands repetitions; each length has exactly one derivation. */
function counted(least: number, most: number | undefined): string {
  if (most !== undefined && most <= 200) return `char{${least},${most}}`
  const begin = `char-100{${Math.floor(least / 100)}} char{${least % 100}}`
  if (most === undefined) return `${begin} char*`
  const hundreds = Math.floor((most - least) / 100)
  const rest = (most - least) % 100
  if (hundreds === 0) return `${begin} char{0,${rest}}`
  const fewer = `char-100{0,${hundreds - 1}} char{0,99}`
  return `${begin} ( ${fewer} | char-100{${hundreds}} char{0,${rest}} )`
}

/** Null: no text matches. */
function patternsGbnf(
  patterns: readonly string[],
  form: string | undefined,
  { least, most }: Bounds,
  context: StringContext,
): string | null {
  const [only = ''] = patterns
  const regexes = patterns.map(readRegex)
  if (patterns.length === 1 && form === undefined && !regexes.some(hasLook)) {
    const fitted = fittedPattern(parseRegex(only), { least, most })
    if (fitted !== null) return regexGbnf(fitted, 'in JSON')
  }
  const format = form === undefined ? null : parseRegex(form)
  const write = (reach: 'whole' | 'somewhere', longest: number): string | null =>
    context.define((own) => {
      const languages = new RegexLanguages(context.schema.budget)
      const all = regexes.map((regex) => languages[reach](regex))
      if (format !== null) all.push(languages.whole(format))
      if (least > 0 || longest < Infinity) all.push(languages.ofLength(least, longest))
      return automatonGbnf(languages, languages.both(all), own, 'in JSON')
    })
  // Narrower first: the whole text matches, then a part of it. What is too large may be small for shorter texts.
  for (const reach of ['whole', 'somewhere'] as const) {
    const full = attempted(() => write(reach, most ?? Infinity))
    const shorter = Math.min(most ?? Infinity, least + SHORTER)
    const name = 'value' in full ? full.value : write(reach, shorter)
    if (name !== null) return name
    if (!('value' in full)) throw unsupported(full.what)
  }
  return null
}

/** With repetitions that are limited to the length. Null: no such expression was found. */
function fittedPattern(regex: Regex, { least, most }: Bounds): Regex | null {
  const fitted = fittedRegex(regex, least, most ?? Infinity)
  if (fitted === null || fitted === regex || nestedRepeats(fitted) <= NESTED_MAX) return fitted
  const shorter = Math.min(most ?? Infinity, Math.max(least, NESTED_LENGTH_MAX))
  return fittedRegex(regex, least, shorter)
}

function quoted(content: string): string {
  return `( "\\"" ${content} "\\"" )`
}
