/**
 * Whether a value that is known while the grammar is written (of `enum`, the name of a property) is valid for a
 * schema.
 */
import { isSchema, isOfType } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'
import { patternsOf } from './pattern-list.ts'
import type { SchemaContext } from './schema-context.ts'
import { formatPattern } from './string-formats.ts'

const OF_OBJECTS =
  'properties required additionalProperties patternProperties propertyNames minProperties maxProperties'
const OF_LISTS = 'items prefixItems additionalItems minItems maxItems uniqueItems'

type Check = (value: unknown, given: unknown, context: SchemaContext) => boolean | null

const numeric =
  (holds: (value: number, bound: number) => boolean): Check =>
  (value, bound) => {
    if (typeof value === 'bigint' || typeof bound !== 'number') return null
    return typeof value !== 'number' || holds(value, bound)
  }
const lengthy =
  (holds: (length: number, bound: number) => boolean): Check =>
  (value, bound) => {
    if (typeof bound !== 'number') return null
    return typeof value !== 'string' || holds(Array.from(value).length, bound)
  }
const unknownOf =
  (isConcerned: (value: unknown) => boolean): Check =>
  (value) =>
    isConcerned(value) ? null : true

const CHECKS: ReadonlyMap<string, Check> = new Map<string, Check>([
  [
    'type',
    (value, given) =>
      (Array.isArray(given) ? given : [given]).some((type) => isOfType(value, type)),
  ],
  ['const', (value, given, context) => context.json(value) === context.json(given)],
  [
    'enum',
    (value, given, context) => {
      const text = context.json(value)
      return Array.isArray(given) && given.some((one) => context.json(one) === text)
    },
  ],
  ['minimum', numeric((value, bound) => value >= bound)],
  ['maximum', numeric((value, bound) => value <= bound)],
  ['exclusiveMinimum', numeric((value, bound) => value > bound)],
  ['exclusiveMaximum', numeric((value, bound) => value < bound)],
  ['multipleOf', numeric((value, step) => Number.isInteger(value / step))],
  ['minLength', lengthy((length, bound) => length >= bound)],
  ['maxLength', lengthy((length, bound) => length <= bound)],
  [
    'pattern',
    (value, given, context) => typeof value !== 'string' || areMatched(value, given, context),
  ],
  [
    'format',
    (value, given, context) => typeof value !== 'string' || hasFormat(value, given, context),
  ],
  ...OF_OBJECTS.split(' ').map((name) => [name, unknownOf(isSchema)] as const),
  ...OF_LISTS.split(' ').map((name) => [name, unknownOf(Array.isArray)] as const),
])

/** A list: it cannot be decided here because of these keywords. */
export function isValidLiteral(
  value: unknown,
  schema: Schema,
  context: SchemaContext,
): boolean | readonly string[] {
  const undecided: string[] = []
  for (const [keyword, given] of Object.entries(schema)) {
    const holds = CHECKS.get(keyword)?.(value, given, context) ?? null
    if (holds === false) return false
    if (holds === null) undecided.push(keyword)
  }
  return undecided.length === 0 ? true : undecided
}

function areMatched(text: string, given: unknown, context: SchemaContext): boolean | null {
  const found = patternsOf(given).map((pattern) => context.matches(text, pattern))
  return found.includes(false) ? false : found.includes(null) ? null : true
}

/** The enforced formats are narrower than the real ones, so it is never certain that a text has not the format. */
function hasFormat(text: string, format: unknown, context: SchemaContext): true | null {
  const pattern = formatPattern(format)
  return pattern === undefined || context.matches(text, `^(?:${pattern})$`) === true ? true : null
}
