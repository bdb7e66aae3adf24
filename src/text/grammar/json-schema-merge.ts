/**
 * Merges two JSON schemas that must both hold, for `allOf` and for keywords next to `anyOf` or `$ref`. Of a keyword
 * that cannot be merged the second value is dropped. `false` is the schema for which nothing is valid.
 */
import { invalidSchema } from '../gbnf/grammar-refusal.ts'
import { mergeItems } from './json-schema-items.ts'
import { listOf, requiredOf } from './json-schema-list.ts'
import { isDescribing, isNever, isStore } from './json-schema-keywords.ts'
import { commonTypes, isSchema, typesOf, valuesOfTypes } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'
import { bothPatterns } from './pattern-list.ts'
import type { SchemaContext } from './schema-context.ts'

const LARGEST = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'])
const SMALLEST = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'])
const BRANCHES = ['anyOf', 'oneOf']
/** Keywords whose meaning depends on others next to them. */
const NAMES = ['properties', 'required', 'additionalProperties', 'patternProperties']
const ITEMS = ['items', 'prefixItems', 'additionalItems']
const SHAPES = new Set([...NAMES, ...ITEMS, 'type', 'enum', 'const'])

/** Properties of merged schemas: `patternProperties` is already part of them. */
const COMPLETE = new WeakSet<object>()

export function merged(a: unknown, b: unknown, context: SchemaContext): Schema | boolean {
  const [left, right] = [asSchema(a), asSchema(b)]
  if (left === false || right === false) return false
  const all: Record<string, unknown> = { ...left }
  context.spend(1 + Object.keys(left).length + Object.keys(right).length)
  for (const [keyword, value] of Object.entries(right)) {
    // Has no meaning as a keyword, and assigning it would set the prototype.
    if (keyword === '__proto__') continue
    if (isDescribing(keyword) || isStore(keyword)) continue
    const own = all[keyword]
    if (own === undefined) all[keyword] = value
    else if (SHAPES.has(keyword) || context.json(own) === context.json(value)) continue
    else if (keyword === 'allOf')
      all[keyword] = [...listOf(own, keyword), ...listOf(value, keyword)]
    else if (keyword === '$ref' || BRANCHES.includes(keyword))
      all['allOf'] = [...listOf(all['allOf'] ?? [], 'allOf'), { [keyword]: value }]
    else all[keyword] = bothOf(keyword, own, value, context)
  }
  if ('type' in left && 'type' in right) {
    const types = commonTypes(typesOf({ type: left['type'] }), typesOf({ type: right['type'] }))
    if (types.length === 0) return false
    all['type'] = types.length === 1 ? types[0] : types
  }
  if (hasAny(left, NAMES) && hasAny(right, NAMES) && !mergeNames(left, right, all, context))
    return false
  if (hasAny(left, ITEMS) && hasAny(right, ITEMS))
    mergeItems(left, right, all, (one, other) => merged(one, other, context))
  return withCommonValues(left, right, all, context)
}

/** All that holds for a property of this name. */
export function schemaOfName(schema: Schema, name: string, context: SchemaContext): unknown {
  const properties = recordOf(schema['properties'])
  let all: unknown = Object.hasOwn(properties, name) ? properties[name] : undefined
  if (all !== undefined && COMPLETE.has(properties)) return all
  for (const [pattern, value] of Object.entries(recordOf(schema['patternProperties']))) {
    const isMatch = context.matches(name, pattern)
    if (isMatch === null) context.drop('patternProperties', `'patternProperties' beside '${name}'`)
    if (isMatch === true) all = all === undefined ? value : merged(all, value, context)
  }
  return all ?? schema['additionalProperties'] ?? true
}

function hasAny(schema: Schema, keywords: readonly string[]): boolean {
  return keywords.some((keyword) => keyword in schema)
}

/** False: a required property has no valid value. */
function mergeNames(
  left: Schema,
  right: Schema,
  all: Record<string, unknown>,
  context: SchemaContext,
): boolean {
  const names = [left, right].flatMap((schema) => Object.keys(recordOf(schema['properties'])))
  const properties = new Map(
    [...new Set(names)].map((name) => [
      name,
      merged(schemaOfName(left, name, context), schemaOfName(right, name, context), context),
    ]),
  )
  if (properties.size > 0) {
    const complete = Object.fromEntries(properties)
    COMPLETE.add(complete)
    all['properties'] = complete
  }
  const required = [left, right].flatMap(requiredOf)
  if (required.length > 0) all['required'] = [...new Set(required)]
  const patterns = patternsOfBoth(left, right, context)
  if (patterns.length > 0) all['patternProperties'] = Object.fromEntries(patterns)
  else delete all['patternProperties']
  const rests = [left, right].flatMap(({ additionalProperties: rest }) =>
    rest === undefined ? [] : [rest],
  )
  if (rests.length > 0)
    all['additionalProperties'] = rests.reduce((one, other) => merged(one, other, context))
  return !required.some((name) => isNever(properties.get(name)))
}

/** Names that match a pattern of one schema only are additional ones for the other. */
function patternsOfBoth(
  left: Schema,
  right: Schema,
  context: SchemaContext,
): readonly (readonly [string, unknown])[] {
  const [ofLeft, ofRight] = [
    recordOf(left['patternProperties']),
    recordOf(right['patternProperties']),
  ]
  const sides = [
    [ofLeft, ofRight, right['additionalProperties'] ?? true],
    [ofRight, ofLeft, left['additionalProperties'] ?? true],
  ] as const
  const found = new Map<string, unknown>()
  for (const [own, other, rest] of sides) {
    for (const [pattern, value] of Object.entries(own)) {
      const others = Object.hasOwn(other, pattern) ? other[pattern] : rest
      if (others !== false) found.set(pattern, merged(value, others, context))
    }
  }
  return [...found]
}

function recordOf(value: unknown): Schema {
  return isSchema(value) ? value : {}
}

/** Of lists of values, the common ones remain. */
function withCommonValues(
  left: Schema,
  right: Schema,
  all: Record<string, unknown>,
  context: SchemaContext,
): Schema | boolean {
  const lists = [left, right].flatMap((schema) => [
    ...('const' in schema ? [[schema['const']]] : []),
    ...('enum' in schema ? [listOf(schema['enum'], 'enum')] : []),
  ])
  if (lists.length === 0) return all
  const texts = lists.map((list) => new Set(list.map((value) => context.json(value))))
  const common = (lists[0] ?? []).filter((value) => {
    const text = context.json(value)
    return texts.every((set) => set.has(text))
  })
  delete all['const']
  all['enum'] = valuesOfTypes(common, all)
  return listOf(all['enum'], 'enum').length > 0 ? all : false
}

function bothOf(keyword: string, a: unknown, b: unknown, context: SchemaContext): unknown {
  if (LARGEST.has(keyword)) return Math.max(Number(a), Number(b))
  if (SMALLEST.has(keyword)) return Math.min(Number(a), Number(b))
  if (keyword === 'propertyNames') return merged(a, b, context)
  if (keyword === 'pattern') return bothPatterns(a, b)
  if (keyword === 'uniqueItems') return a === true || b === true
  if (keyword === 'multipleOf' && Number(a) % Number(b) === 0) return a
  if (keyword === 'multipleOf' && Number(b) % Number(a) === 0) return b
  context.drop(keyword, `'${keyword}' that is given twice, in 'allOf' or beside 'anyOf' or '$ref'`)
  return a
}

function asSchema(value: unknown): Schema | false {
  if (value === true) return {}
  if (value === false) return false
  if (isSchema(value)) return value
  throw invalidSchema('a schema must be an object, true or false')
}
