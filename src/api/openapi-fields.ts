/**
 * An OpenAPI document prepared for display: its operations, and each schema as one row per field with type and
 * limits. The pages (`/docs` of a frontend, the documentation site) only render the rows.
 */
export type Schema = Readonly<Record<string, unknown>>

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
}
export type Content = Readonly<Record<string, { readonly schema: Schema }>>
export interface RequestBody {
  readonly required: boolean
  readonly content: Content
}
interface Reply {
  readonly description: string
  readonly headers?: Schema
  readonly content: Content
}
export interface OperationEntry {
  readonly operationId: string
  readonly summary: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: RequestBody
  readonly responses: Readonly<Record<string, Reply>>
}
export interface OpenApi {
  readonly openapi: '3.1.0'
  readonly info: { readonly title: string; readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationEntry>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

interface NamedOperation {
  /** In capitals. */
  readonly method: string
  readonly path: string
  readonly operation: OperationEntry
}

/** A part of a type: words, a literal value, or the name of a schema in `components`. */
export interface TypePart {
  readonly kind: 'words' | 'value' | 'schema'
  readonly text: string
}

export interface Field {
  /** For example `nvext.agent_hints.priority` or `messages[].content`. */
  readonly path: string
  readonly type: readonly TypePart[]
  /** Whether the field is required, its limits and description. */
  readonly notes: string
}

/** Deeper levels are only in openapi.json; a page with all of them would be too long. */
const DEPTH_MAX = 3
const BOUNDS = {
  minimum: '≥',
  exclusiveMinimum: '>',
  maximum: '≤',
  exclusiveMaximum: '<',
  minLength: 'length ≥',
  maxLength: 'length ≤',
  minItems: 'items ≥',
  maxItems: 'items ≤',
} as const

export function operationsOf({ paths }: OpenApi): readonly NamedOperation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation,
    })),
  )
}

export function fieldsOf(schema: Schema): readonly Field[] {
  return fieldsIn(schema, '', 1)
}

function fieldsIn(schema: Schema, prefix: string, depth: number): readonly Field[] {
  const required = new Set(isList(schema['required']) ? schema['required'] : [])
  const { properties } = schema
  if (!isSchema(properties)) return []
  return Object.entries(properties).flatMap(([name, field]) => {
    if (!isSchema(field)) return []
    const path = `${prefix}${name}`
    const notes = [required.has(name) ? 'required' : '', boundsOf(field), descriptionOf(field)]
    const row: Field = {
      path,
      type: typeOf(field),
      notes: notes.filter((text) => text !== '').join(', '),
    }
    if (depth === DEPTH_MAX) return [row]
    const { items } = field
    const inside = isSchema(items)
      ? fieldsIn(items, `${path}[].`, depth + 1)
      : fieldsIn(field, `${path}.`, depth + 1)
    return [row, ...inside]
  })
}

export function typeOf(schema: Schema): readonly TypePart[] {
  const reference = schema['$ref']
  if (typeof reference === 'string') {
    return [{ kind: 'schema', text: reference.split('/').pop() ?? reference }]
  }
  if ('const' in schema) return [value(schema['const'])]
  if (isList(schema['enum']))
    return joined(
      schema['enum'].map((each) => [value(each)]),
      ', ',
    )
  const choices = schema['anyOf'] ?? schema['oneOf']
  if (isList(choices)) return joined(distinct(choices.filter(isSchema).map(typeOf)), ' or ')
  const { type, items } = schema
  if (type === 'array') {
    return isSchema(items) ? [words('list of '), ...typeOf(items)] : [words('list')]
  }
  if (isList(type)) return [words(type.join(' or '))]
  return [words(typeof type === 'string' ? type : 'anything')]
}

const words = (text: string): TypePart => ({ kind: 'words', text })
const value = (of: unknown): TypePart => ({ kind: 'value', text: JSON.stringify(of) })

function joined(types: readonly (readonly TypePart[])[], between: string): readonly TypePart[] {
  return types.flatMap((type, i) => (i === 0 ? type : [words(between), ...type]))
}

function distinct(types: readonly (readonly TypePart[])[]): readonly (readonly TypePart[])[] {
  return [...new Map(types.map((type) => [JSON.stringify(type), type])).values()]
}

function boundsOf(schema: Schema): string {
  return Object.entries(BOUNDS)
    .filter(([key]) => typeof schema[key] === 'number' && !isOfWholeNumbers(schema, key))
    .map(([key, sign]) => `${sign} ${String(schema[key])}`)
    .join(', ')
}

/** The limits of safe integers are not a limit of the field. */
function isOfWholeNumbers(schema: Schema, key: string): boolean {
  return Math.abs(Number(schema[key])) === Number.MAX_SAFE_INTEGER
}

function descriptionOf(schema: Schema): string {
  const text = schema['description']
  return typeof text === 'string' ? text : ''
}

function isSchema(of: unknown): of is Schema {
  return typeof of === 'object' && of !== null && !Array.isArray(of)
}

function isList(of: unknown): of is readonly unknown[] {
  return Array.isArray(of)
}
