/** JSON schema strings as GBNF: by length, pattern or format. Includes the quotes, but no trailing blanks. */
import { invalid, unsupported } from './grammar-refusal.ts'
import type { Schema } from './json-schema-types.ts'
import { fittedRegex } from './regex-fit.ts'
import { regexGbnf } from './regex-gbnf.ts'
import { nestedRepeats } from './regex-length.ts'
import { parseRegex } from './regex-syntax.ts'
import type { Regex } from './regex-syntax.ts'

const TIME = String.raw`([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
/** Every date that exists in all years. */
const DATE = String.raw`[12]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))`
/** Nested repetitions, which llama.cpp expands, are limited to texts of this length. */
const NESTED_MAX = 1000
const NESTED_LENGTH_MAX = 250
/** llama.cpp's limit for repetitions of a group. */
const ITEMS_MAX = 1000
/** Limit for the length of a length-bounded string. */
const LENGTH_MAX = 100_000
const LABEL = '[a-z0-9]{1,20}(-[a-z0-9]{1,20}){0,3}'
const HOST = String.raw`${LABEL}(\.${LABEL}){0,3}\.[a-z]{2,10}`
/** A character of a path, query or fragment. */
const URI_CHAR = String.raw`([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})`
const BYTE = String.raw`(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])`

/**
 * Formats that are enforced. The grammar generates fewer values than the format allows (no leap days, no quoted local
 * parts).
 */
const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: String.raw`P(\d{1,3}[YMWD]|\d{1,3}DT\d{1,2}H|T\d{1,3}[HMS])`,
  email: String.raw`[a-z0-9]{1,20}([._+-][a-z0-9]{1,20}){0,3}@${HOST}`,
  hostname: HOST,
  ipv4: String.raw`${BYTE}(\.${BYTE}){3}`,
  ipv6: '[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}',
  uri: String.raw`([a-z][a-z0-9]{1,9}://${HOST}(:([1-9]\d{0,3}|[1-5]\d{4}))?([/?]${URI_CHAR}*)?|(mailto|urn|tel|data):${URI_CHAR}+)(#${URI_CHAR}*)?`,
  uuid: '[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}',
}

export function stringGbnf(schema: Schema): string {
  const least = countBound(schema, 'minLength', LENGTH_MAX) ?? 0
  const most = countBound(schema, 'maxLength', LENGTH_MAX)
  if (most !== undefined && most < least) throw invalid("'maxLength' is below 'minLength'")
  const { pattern, format } = schema
  if (pattern !== undefined) {
    if (typeof pattern !== 'string') throw invalid("'pattern' must be a text")
    return patternGbnf(pattern, least, most)
  }
  const isBounded = least > 0 || most !== undefined
  const form =
    typeof format === 'string' && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined
  // A format is an annotation: if no text of the format has the required length, the length takes precedence.
  const fitted = form === undefined ? null : fittedRegex(parseRegex(form), least, most ?? Infinity)
  if (fitted !== null) return quoted(fitted)
  const chars = isBounded ? counted(least, most) : 'char*'
  return `( "\\"" ${chars} "\\"" )`
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

function patternGbnf(pattern: string, least: number, most: number | undefined): string {
  const regex = parseRegex(pattern)
  const fitted = fittedRegex(regex, least, most ?? Infinity)
  if (fitted !== null && (fitted === regex || nestedRepeats(fitted) <= NESTED_MAX))
    return quoted(fitted)
  const shorter = fittedRegex(
    regex,
    least,
    Math.min(most ?? Infinity, Math.max(least, NESTED_LENGTH_MAX)),
  )
  if (fitted !== null && shorter !== null) return quoted(shorter)
  throw unsupported(
    "'pattern' together with these lengths: no match was found that has one of them",
  )
}

function quoted(regex: Regex): string {
  return `( "\\"" ${regexGbnf(regex, 'in JSON')} "\\"" )`
}

/**
 * `minItems`, `maxLength` and similar keywords. More than `limit` is never generated, so a larger upper bound becomes
 * `limit`, and a larger lower bound is refused.
 */
export function countBound(schema: Schema, keyword: string, limit = ITEMS_MAX): number | undefined {
  const value = schema[keyword]
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
    throw invalid(`'${keyword}' must be a whole number from 0 on`)
  if (value <= limit) return value
  if (keyword.startsWith('max')) return limit
  throw unsupported(`'${keyword}' above ${limit}`)
}
