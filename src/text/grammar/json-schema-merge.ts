/**
 * Merges two JSON schemas that must both hold, for `allOf` and for keywords next to `anyOf` or `$ref`. Combinations
 * that cannot be merged are refused by keyword. `false` is the schema for which nothing is valid.
 */
import { exactJson } from '../../base/index.ts'
import { invalidSchema, unsupported } from './grammar-refusal.ts'
import { listOf } from './json-schema-list.ts'
import { isDescribing, isStore } from './json-schema-keywords.ts'
import { commonTypes, isSchema, typesOf, valuesOfTypes } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'

const LARGEST = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'])
const SMALLEST = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'])
const BRANCHES = ['anyOf', 'oneOf']

export function merged(a: unknown, b: unknown): Schema | boolean {
  const [left, right] = [asSchema(a), asSchema(b)]
  if (left === false || right === false) return false
  refuseHalfTuple(left, right)
  const all: Record<string, unknown> = { ...left }
  for (const [keyword, value] of Object.entries(right)) {
    // Has no meaning as a keyword, and assigning it would set the prototype.
    if (keyword === '__proto__') continue
    if (isDescribing(keyword) || isStore(keyword)) continue
    const own = all[keyword]
    if (own === undefined) all[keyword] = value
    else if (keyword === 'allOf')
      all[keyword] = [...listOf(own, keyword), ...listOf(value, keyword)]
    else if (keyword === '$ref' || BRANCHES.includes(keyword)) {
      all['allOf'] = [...listOf(all['allOf'] ?? [], 'allOf'), { [keyword]: value }]
    } else if (!SHAPES.has(keyword)) all[keyword] = bothOf(keyword, own, value)
  }
  if ('type' in left && 'type' in right) {
    const types = commonTypes(typesOf({ type: left['type'] }), typesOf({ type: right['type'] }))
    if (types.length === 0) return false
    all['type'] = types.length === 1 ? types[0] : types
  }
  if (SHAPE_KEYWORDS.some((keyword) => keyword in left && keyword in right) || isPair(left, right))
    mergeShape(left, right, all)
  return withCommonValues(left, right, all)
}

/** `items` applies to all items, but with `prefixItems` only to those after them. */
function refuseHalfTuple(left: Schema, right: Schema): void {
  for (const [one, other] of [
    [left, right],
    [right, left],
  ] as const) {
    if ('prefixItems' in one && !('prefixItems' in other) && 'items' in other)
      throw unsupported("'prefixItems' together with another schema's 'items'")
  }
}

/** Keywords whose meaning depends on others next to them. */
const SHAPE_KEYWORDS = ['properties', 'required', 'additionalProperties']
const SHAPES = new Set([...SHAPE_KEYWORDS, 'type', 'enum', 'const'])

function isPair(left: Schema, right: Schema): boolean {
  const speaks = (schema: Schema): boolean => SHAPE_KEYWORDS.some((keyword) => keyword in schema)
  return speaks(left) && speaks(right)
}

function mergeShape(left: Schema, right: Schema, all: Record<string, unknown>): void {
  const properties: [string, unknown][] = []
  for (const key of new Set([...keysOf(left), ...keysOf(right)])) {
    const both = merged(propertyOf(left, key), propertyOf(right, key))
    properties.push([key, both])
  }
  if (properties.length > 0) all['properties'] = Object.fromEntries(properties)
  const required = [
    ...listOf(left['required'] ?? [], 'required'),
    ...listOf(right['required'] ?? [], 'required'),
  ]
  if (required.length > 0) all['required'] = [...new Set(required)]
  const rests = [left['additionalProperties'], right['additionalProperties']]
  const said = rests.filter((rest) => rest !== undefined)
  if (said.length > 0) all['additionalProperties'] = said.reduce(merged)
}

function keysOf(schema: Schema): string[] {
  return isSchema(schema['properties']) ? Object.keys(schema['properties']) : []
}

function propertyOf(schema: Schema, key: string): unknown {
  const properties = isSchema(schema['properties']) ? schema['properties'] : {}
  return Object.hasOwn(properties, key) ? properties[key] : (schema['additionalProperties'] ?? true)
}

/** Of lists of values, the common ones remain. */
function withCommonValues(
  left: Schema,
  right: Schema,
  all: Record<string, unknown>,
): Schema | boolean {
  const lists = [left, right].flatMap((schema) => [
    ...('const' in schema ? [[schema['const']]] : []),
    ...('enum' in schema ? [listOf(schema['enum'], 'enum')] : []),
  ])
  if (lists.length === 0) return all
  const texts = lists.map((list) => new Set(list.map(exactJson)))
  const common = (lists[0] ?? []).filter((value) => texts.every((set) => set.has(exactJson(value))))
  delete all['const']
  all['enum'] = valuesOfTypes(common, all)
  return listOf(all['enum'], 'enum').length > 0 ? all : false
}

function bothOf(keyword: string, a: unknown, b: unknown): unknown {
  if (exactJson(a) === exactJson(b)) return a
  if (LARGEST.has(keyword)) return Math.max(Number(a), Number(b))
  if (SMALLEST.has(keyword)) return Math.min(Number(a), Number(b))
  if (keyword === 'items' || keyword === 'propertyNames') return merged(a, b)
  if (keyword === 'uniqueItems') return a === true || b === true
  if (keyword === 'multipleOf' && Number(a) % Number(b) === 0) return a
  if (keyword === 'multipleOf' && Number(b) % Number(a) === 0) return b
  throw unsupported(`'${keyword}' that is given twice, in 'allOf' or beside 'anyOf' or '$ref'`)
}

function asSchema(value: unknown): Schema | false {
  if (value === true) return {}
  if (value === false) return false
  if (isSchema(value)) return value
  throw invalidSchema('a schema must be an object, true or false')
}
