/** Which types a JSON schema allows, explicitly or by its keywords, and which values of a list have one of them. */
import { isRecord } from '../../base/index.ts'
import type { JsonRecord } from '../../base/index.ts'
import { formatPattern } from './string-formats.ts'

export type Schema = JsonRecord

/** Keywords that imply a type. In the standard, without `type` all other types are valid as well; here they are not. */
const TYPE_OF_KEYWORD: Readonly<Record<string, string>> = {
  properties: 'object',
  required: 'object',
  additionalProperties: 'object',
  patternProperties: 'object',
  propertyNames: 'object',
  minProperties: 'object',
  maxProperties: 'object',
  items: 'array',
  prefixItems: 'array',
  minItems: 'array',
  maxItems: 'array',
  uniqueItems: 'array',
  minLength: 'string',
  maxLength: 'string',
  pattern: 'string',
  minimum: 'number',
  maximum: 'number',
  exclusiveMinimum: 'number',
  exclusiveMaximum: 'number',
  multipleOf: 'number',
}

export function isSchema(value: unknown): value is Schema {
  return isRecord(value)
}

/** Empty: any type. */
export function typesOf(schema: Schema): readonly unknown[] {
  const { type } = schema
  if (Array.isArray(type)) return type
  if (type !== undefined) return [type]
  const implied = Object.keys(schema).flatMap((keyword) => TYPE_OF_KEYWORD[keyword] ?? [])
  if (formatPattern(schema['format']) !== undefined) implied.push('string')
  return [...new Set(implied)]
}

/** The types that both allow; empty: none. */
export function commonTypes(a: readonly unknown[], b: readonly unknown[]): readonly unknown[] {
  const common = new Set<unknown>()
  for (const type of a) {
    if (b.includes(type)) common.add(type)
    else if (type === 'integer' && b.includes('number')) common.add('integer')
    else if (type === 'number' && b.includes('integer')) common.add('integer')
  }
  return [...common]
}

/** The values of a list that have an allowed type. */
export function valuesOfTypes(values: readonly unknown[], schema: Schema): readonly unknown[] {
  if (schema['type'] === undefined) return values
  const types = typesOf(schema)
  return values.filter((value) => types.some((type) => isOfType(value, type)))
}

export function isOfType(value: unknown, type: unknown): boolean {
  switch (type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return isSchema(value)
    case 'integer':
      return Number.isInteger(value) || typeof value === 'bigint'
    case 'number':
      return typeof value === 'number' || typeof value === 'bigint'
    default:
      return typeof value === type
  }
}
