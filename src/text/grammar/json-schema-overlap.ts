/**
 * Whether two JSON schemas can have a common value. `oneOf` requires that exactly one option is valid, which a
 * grammar can guarantee only if no value fits two of them.
 */
import { requiredOf } from './json-schema-list.ts'
import { commonTypes, isSchema, typesOf } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'
import type { SchemaContext } from './schema-context.ts'

const DEPTH_MAX = 4

/** The first option that an earlier one may overlap; null: there is none. */
export function overlapOf(
  options: readonly unknown[],
  resolve: Resolve,
  context: SchemaContext,
): number | null {
  const resolved = options.map(resolve)
  const found = resolved.findIndex((option, index) =>
    resolved.slice(0, index).some((other) => !areDisjoint(option, other, resolve, context)),
  )
  return found < 0 ? null : found
}

/** True only if it is certain that no value is valid for both. */
function areDisjoint(
  a: unknown,
  b: unknown,
  resolve: Resolve,
  context: SchemaContext,
  depth = 0,
): boolean {
  const [left, right] = [resolve(a), resolve(b)]
  if (left === false || right === false) return true
  if (!isSchema(left) || !isSchema(right) || depth > DEPTH_MAX) return false
  const [leftTypes, rightTypes] = [certainTypes(left), certainTypes(right)]
  if (leftTypes.length > 0 && rightTypes.length > 0) {
    const common = commonTypes(leftTypes, rightTypes)
    if (common.length === 0) return true
    if (haveDisjointValues(left, right, context)) return true
    return (
      common.every((type) => type === 'object') &&
      areDisjointObjects(left, right, resolve, context, depth)
    )
  }
  return haveDisjointValues(left, right, context)
}

/** Follows `$ref` to the actual schema. */
type Resolve = (schema: unknown) => unknown

function valuesOf(schema: Schema): readonly unknown[] | null {
  if ('const' in schema) return [schema['const']]
  return Array.isArray(schema['enum']) ? (schema['enum'] as unknown[]) : null
}

function certainTypes(schema: Schema): readonly unknown[] {
  const values = valuesOf(schema)
  // Types that keywords only imply do not count: without `type` the other types are valid as well.
  if (values === null) return schema['type'] === undefined ? [] : typesOf(schema)
  return [...new Set(values.map(typeOf))]
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'bigint') return 'integer'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  return typeof value
}

function haveDisjointValues(left: Schema, right: Schema, context: SchemaContext): boolean {
  const [a, b] = [valuesOf(left), valuesOf(right)]
  if (a === null || b === null) return false
  const texts = new Set(a.map((value) => context.json(value)))
  return b.every((value) => !texts.has(context.json(value)))
}

/** One schema requires a property whose values the other excludes. */
function areDisjointObjects(
  left: Schema,
  right: Schema,
  resolve: Resolve,
  context: SchemaContext,
  depth: number,
): boolean {
  return (
    [
      [left, right],
      [right, left],
    ] as const
  ).some(([one, other]) =>
    requiredOf(one).some((key) => {
      const own = propertyOf(one, key)
      const others = propertyOf(other, key)
      if (others === undefined)
        return other['additionalProperties'] === false && !('patternProperties' in other)
      const isInBoth = requiredOf(other).includes(key)
      return isInBoth && own !== undefined && areDisjoint(own, others, resolve, context, depth + 1)
    }),
  )
}

function propertyOf(schema: Schema, key: string): unknown {
  const { properties } = schema
  return isSchema(properties) && Object.hasOwn(properties, key) ? properties[key] : undefined
}
