/** The property names of an object schema: what a named property has to be. */
import { requiredOf } from './json-schema-list.ts'
import { isValidLiteral } from './json-schema-literal.ts'
import { schemaOfName } from './json-schema-merge.ts'
import { isSchema } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'
import type { SchemaContext } from './schema-context.ts'

/** To find out what holds for a name is as slow as this many steps. */
const NAME_STEPS = 4

/**
 * The properties that the schema defines, plus required ones that it does not define, with all that holds for them.
 * `false`: the schema does not allow the name. `names` is the flattened `propertyNames`.
 */
export function propertiesOf(
  schema: Schema,
  names: Schema | boolean,
  context: SchemaContext,
): ReadonlyMap<string, unknown> {
  const defined = isSchema(schema['properties']) ? Object.keys(schema['properties']) : []
  const required = requiredOf(schema)
  context.spend(NAME_STEPS * (defined.length + required.length))
  return new Map(
    [...new Set([...defined, ...required])].map((name) => [
      name,
      isAllowed(name, names, context) && schemaOfName(schema, name, context),
    ]),
  )
}

function isAllowed(name: string, names: Schema | boolean, context: SchemaContext): boolean {
  if (typeof names === 'boolean') return names
  const isValid = isValidLiteral(name, names, context)
  if (typeof isValid === 'boolean') return isValid
  context.drop(
    'propertyNames',
    `'propertyNames' with '${isValid.join("', '")}' beside 'properties'`,
  )
  return true
}
