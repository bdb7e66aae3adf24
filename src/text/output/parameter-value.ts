/** Converts values in formats without quotes: the tool's schema determines which of them are strings. */
import { isRecord } from '../../base/index.ts'
import { isJson } from './is-json.ts'
import type { OfferedTool } from './output-event.ts'
import { pythonLiteralJson } from './python-literal.ts'

/** The types that a parameter's schema allows, as named by JSON Schema. Null: any. */
export type ParameterTypes = ReadonlySet<string> | null

const DEPTH_MAX = 8
const ANY = null

/** Without a schema a parameter is a string. */
export function parameterTypes(
  tools: readonly OfferedTool[],
  tool: string,
  parameter: string,
): ParameterTypes {
  const schema = tools.find((offered) => offered.name === tool)?.parameters
  const properties = isRecord(schema) ? schema['properties'] : undefined
  const property = isRecord(properties) ? properties[parameter] : undefined
  return isRecord(property) ? typesOf(property, schema) : new Set(['string'])
}

/** Only a string is allowed, so that it can be passed on as it arrives. */
export function isTextOnly(types: ParameterTypes): boolean {
  return types?.size === 1 && types.has('string')
}

/**
 * Valid JSON unchanged; Python literals (some models write `True` and `['a']`) as JSON; everything else, and values
 * that the schema only allows as string, as a string: `123` if the type is string or null.
 */
export function bareValue(text: string, types: ParameterTypes): string {
  const trimmed = text.trim()
  const json = isJson(trimmed) ? trimmed : pythonLiteralJson(trimmed)
  if (json === null) return JSON.stringify(text)
  const type = typeOf(json)
  const isText = types?.has('string') === true && (type === 'string' || !types.has(type))
  return isText ? JSON.stringify(text) : json
}

function typeOf(json: string): string {
  const first = json.charAt(0)
  if (first === '{') return 'object'
  if (first === '[') return 'array'
  if (first === '"') return 'string'
  if (first === 'n') return 'null'
  return first === 't' || first === 'f' ? 'boolean' : 'number'
}

/** `root`: the schema that references point into. */
export function typesOf(schema: unknown, root: unknown, depth = 0): ParameterTypes {
  if (!isRecord(schema) || depth > DEPTH_MAX) return ANY
  const { type } = schema
  if (typeof type === 'string') return named([type])
  if (Array.isArray(type)) return named(type)
  if (typeof schema['$ref'] === 'string') {
    return typesOf(definitionOf(schema['$ref'], root), root, depth + 1)
  }
  const listed = schema['enum'] ?? ('const' in schema ? [schema['const']] : undefined)
  if (Array.isArray(listed)) {
    return new Set(listed.map((value) => typeOf(JSON.stringify(value) ?? 'null')))
  }
  const branches = schema['anyOf'] ?? schema['oneOf']
  if (!Array.isArray(branches)) return ANY
  const types = branches.map((branch) => typesOf(branch, root, depth + 1))
  return types.includes(ANY) ? ANY : new Set(types.flatMap((set) => [...(set ?? [])]))
}

/** The schema of a property of an object, or (`key` null) of a list item. Undefined: there is none. */
export function childSchema(
  schema: unknown,
  key: string | null,
  root: unknown,
  depth = 0,
): unknown {
  if (!isRecord(schema) || depth > DEPTH_MAX) return undefined
  const { properties, items, additionalProperties } = schema
  if (key === null) {
    if (items !== undefined) return items
  } else if (isRecord(properties) && Object.hasOwn(properties, key)) return properties[key]
  else if (isRecord(additionalProperties)) return additionalProperties
  const reference = schema['$ref']
  if (typeof reference === 'string') {
    return childSchema(definitionOf(reference, root), key, root, depth + 1)
  }
  const branches = schema['anyOf'] ?? schema['oneOf'] ?? schema['allOf']
  if (!Array.isArray(branches)) return undefined
  const found = branches.map((branch) => childSchema(branch, key, root, depth + 1))
  return found.find((child) => child !== undefined)
}

/** Treats `integer` as `number`, and leaves out what is no name of a type. */
function named(types: readonly unknown[]): ParameterTypes {
  const names = types.filter((type) => typeof type === 'string')
  return names.length === 0
    ? ANY
    : new Set(names.map((type) => (type === 'integer' ? 'number' : type)))
}

function definitionOf(reference: string, root: unknown): unknown {
  const path = /^#\/(.+)$/.exec(reference)?.[1]?.split('/') ?? []
  let at: unknown = path.length > 0 ? root : undefined
  for (const part of path) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    at = isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined
  }
  return at
}
