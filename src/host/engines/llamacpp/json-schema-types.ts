/**
 * Which types a JSON schema allows, said or implied; and which values of a list have one of them.
 */
type Schema = Readonly<Record<string, unknown>>

/** Keywords that speak of one type only. Without `type` the standard lets every other type pass; here it does not. */
const TYPE_OF_KEYWORD: Readonly<Record<string, string>> = {
  properties: 'object',
  required: 'object',
  additionalProperties: 'object',
  items: 'array',
  minItems: 'array',
  maxItems: 'array',
  minLength: 'string',
  maxLength: 'string',
  minimum: 'number',
  maximum: 'number',
  exclusiveMinimum: 'number',
  exclusiveMaximum: 'number',
}

/** Empty: any type. */
export function typesOf(schema: Schema): readonly unknown[] {
  const { type } = schema
  if (Array.isArray(type)) return type
  if (type !== undefined) return [type]
  const implied = Object.keys(schema).flatMap((keyword) => TYPE_OF_KEYWORD[keyword] ?? [])
  return [...new Set(implied)]
}

/** The values that `type` leaves of a list. */
export function valuesOfTypes(values: readonly unknown[], schema: Schema): readonly unknown[] {
  if (schema['type'] === undefined) return values
  const types = typesOf(schema)
  return values.filter((value) => types.some((type) => isOfType(value, type)))
}

function isOfType(value: unknown, type: unknown): boolean {
  switch (type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    case 'integer':
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}
