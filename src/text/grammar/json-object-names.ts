/** The property names of an object schema: named properties, and constraints on additional names. */
import { exactJson } from '../../base/index.ts'
import { unsupported } from './grammar-refusal.ts'
import { listOf } from './json-schema-list.ts'
import { isSchema } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'
import { countBound } from './string-gbnf.ts'

/** The properties that the schema defines, plus required ones that it does not define. */
export function propertiesOf(schema: Schema): ReadonlyMap<string, unknown> {
  const properties = new Map(
    Object.entries(isSchema(schema['properties']) ? schema['properties'] : {}),
  )
  for (const key of listOf(schema['required'] ?? [], 'required').map(String)) {
    if (!properties.has(key)) properties.set(key, schema['additionalProperties'] ?? true)
  }
  return properties
}

/** If there are named properties, no others are allowed: one could repeat a named property with an invalid value. */
export function refuseOtherNames(
  schema: Schema,
  properties: ReadonlyMap<string, unknown>,
  required: ReadonlySet<string>,
): void {
  const least = countBound(schema, 'minProperties') ?? 0
  const most = countBound(schema, 'maxProperties') ?? Infinity
  if (least > required.size) throw unsupported("'minProperties' beyond the required ones")
  if (most < properties.size) throw unsupported("'maxProperties' below the named ones")
  if ('patternProperties' in schema) throw unsupported("'patternProperties' beside 'properties'")
  const names = schema['propertyNames'] ?? true
  const isAnyText = names === true || exactJson(names) === '{"type":"string"}'
  const keys = isSchema(names) && Array.isArray(names['enum']) ? names['enum'] : null
  const areListed = keys !== null && [...properties.keys()].every((key) => keys.includes(key))
  if (!isAnyText && !areListed) throw unsupported("'propertyNames' beside 'properties'")
}
