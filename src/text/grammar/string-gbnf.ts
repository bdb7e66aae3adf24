/** Strings of a JSON schema as GBNF: by length, by pattern, by format. Quotes are included, blanks behind are not. */
import { invalid, unsupported } from './grammar-refusal.ts'
import type { Schema } from './json-schema-types.ts'
import { fittedRegex } from './regex-fit.ts'
import { regexGbnf } from './regex-gbnf.ts'
import { parseRegex, REPEAT_MAX } from './regex-syntax.ts'
import type { Regex } from './regex-syntax.ts'

const TIME = String.raw`([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
/** Every day that every year has. */
const DATE = String.raw`[12]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))`
const LABEL = '[a-z0-9]{1,20}(-[a-z0-9]{1,20}){0,3}'
const HOST = String.raw`${LABEL}(\.${LABEL}){0,3}\.[a-z]{2,10}`
const BYTE = String.raw`(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])`

/** The formats whose form is enforced; a grammar writes fewer than there are (no leap days, no quoted local parts). */
const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: String.raw`P(\d{1,3}[YMWD]|\d{1,3}DT\d{1,2}H|T\d{1,3}[HMS])`,
  email: String.raw`[a-z0-9]{1,20}([._+-][a-z0-9]{1,20}){0,3}@${HOST}`,
  hostname: HOST,
  ipv4: String.raw`${BYTE}(\.${BYTE}){3}`,
  ipv6: '[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}',
  uuid: '[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}',
}

export function stringGbnf(schema: Schema): string {
  const least = countBound(schema, 'minLength') ?? 0
  const most = countBound(schema, 'maxLength')
  if (most !== undefined && most < least) throw invalid("'maxLength' is below 'minLength'")
  const { pattern, format } = schema
  if (pattern !== undefined) {
    if (typeof pattern !== 'string') throw invalid("'pattern' must be a text")
    return patternGbnf(pattern, least, most)
  }
  const isBounded = least > 0 || most !== undefined
  const form =
    typeof format === 'string' && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined
  // A format is an annotation: where no text of its form has such a length, the length counts.
  const fitted = form === undefined ? null : fittedRegex(parseRegex(form), least, most ?? Infinity)
  if (fitted !== null) return quoted(fitted)
  return isBounded ? `( "\\"" char{${least},${most ?? ''}} "\\"" )` : '( "\\"" char* "\\"" )'
}

function patternGbnf(pattern: string, least: number, most: number | undefined): string {
  const fitted = fittedRegex(parseRegex(pattern), least, most ?? Infinity)
  if (fitted !== null) return quoted(fitted)
  throw unsupported(
    "'pattern' together with these lengths: no match was found that has one of them",
  )
}

function quoted(regex: Regex): string {
  return `( "\\"" ${regexGbnf(regex, 'in JSON')} "\\"" )`
}

/** `minItems`, `maxLength` and their like. */
export function countBound(schema: Schema, keyword: string): number | undefined {
  const value = schema[keyword]
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > REPEAT_MAX)
    throw invalid(`'${keyword}' must be a whole number from 0 to ${REPEAT_MAX}`)
  return value
}
