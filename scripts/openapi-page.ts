/**
 * The OpenAPI document as a page of the documentation site: every operation with its fields, their bounds and its replies.
 *
 * Pure: the document that a running frontend serves at `/openapi.json` in, Markdown out.
 */
type Schema = Readonly<Record<string, unknown>>

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
}
type Content = Readonly<Record<string, { readonly schema: Schema }>>
interface Operation {
  readonly summary: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly required: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly content: Content }>>
}
export interface OpenApi {
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

/** Fields of fields of fields are in openapi.json; a page with all of them is not read. */
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

export function openApiPage(document: OpenApi): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  )
  return [
    '# OpenAPI',
    '',
    `The HTTP API of Baton ${document.info.version}, operation by operation, made from the document that every frontend serves at`,
    '`/openapi.json` (as a short page at `/docs`): [openapi.json](/openapi.json), OpenAPI 3.1, for generators of clients. The schemas are the',
    'ones that check the requests. What the fields do is in [HTTP API](./docs/http-api.md), every error in [errors](./docs/errors.md).',
    ...operations.flatMap(({ method, path, operation }) => [
      '',
      `## \`${method.toUpperCase()} ${path}\``,
      '',
      `${operation.summary}.`,
      ...parameterLines(operation.parameters ?? []),
      ...bodyLines(operation.requestBody),
      '',
      `Answers ${replyText(operation)}.`,
    ]),
    '',
    '## Replies',
    ...Object.entries(document.components.schemas).flatMap(([name, schema]) => [
      '',
      `### ${name}`,
      ...fieldTable(schema),
    ]),
    '',
  ].join('\n')
}

function parameterLines(parameters: readonly Parameter[]): string[] {
  const named = parameters.map(({ name, in: place }) => `\`${name}\` (${place})`)
  return named.length === 0 ? [] : ['', `Parameters: ${named.join(', ')}.`]
}

function bodyLines(body: Operation['requestBody']): string[] {
  return Object.entries(body?.content ?? {}).flatMap(([type, { schema }]) => [
    '',
    `Body (\`${type}\`${body?.required === true ? '' : ', may be left out'}):`,
    ...fieldTable(schema),
  ])
}

function replyText({ responses }: Operation): string {
  const { default: refused, ...good } = responses
  const replies = Object.entries(good).map(
    ([status, { content }]) => `${status} with ${contentText(content)}`,
  )
  const other = refused === undefined ? [] : [`otherwise ${contentText(refused.content)}`]
  return [...replies, ...other].join(', ')
}

function contentText(content: Content): string {
  return Object.entries(content)
    .map(([type, { schema }]) => {
      const name = nameOf(schema)
      return name === null ? `\`${type}\`` : `[${name}](#${name.toLowerCase()})`
    })
    .join(' or ')
}

function fieldTable(schema: Schema): string[] {
  const rows = rowsOf(schema, '', 1)
  if (rows.length === 0) return ['', `${typeOf(schema)}.`]
  return ['', '| field | type | |', '|---|---|---|', ...rows]
}

function rowsOf(schema: Schema, prefix: string, depth: number): string[] {
  const required = new Set(isList(schema['required']) ? schema['required'] : [])
  const { properties } = schema
  if (!isSchema(properties)) return []
  return Object.entries(properties).flatMap(([name, field]) => {
    if (!isSchema(field)) return []
    const path = `${prefix}${name}`
    const said = [required.has(name) ? 'required' : '', boundsOf(field), description(field)]
    const row = `| \`${path}\` | ${typeOf(field)} | ${said.filter((text) => text !== '').join(', ')} |`
    if (depth === DEPTH_MAX) return [row]
    const { items } = field
    const inside = isSchema(items)
      ? rowsOf(items, `${path}[].`, depth + 1)
      : rowsOf(field, `${path}.`, depth + 1)
    return [row, ...inside]
  })
}

function typeOf(schema: Schema): string {
  const name = nameOf(schema)
  if (name !== null) return `[${name}](#${name.toLowerCase()})`
  if ('const' in schema) return code(schema['const'])
  if (isList(schema['enum'])) return schema['enum'].map(code).join(', ')
  const choices = schema['anyOf'] ?? schema['oneOf']
  if (isList(choices)) {
    return [...new Set(choices.filter(isSchema).map(typeOf))].join(' or ')
  }
  const { type, items } = schema
  if (type === 'array') return isSchema(items) ? `list of ${typeOf(items)}` : 'list'
  if (isList(type)) return type.join(' or ')
  return typeof type === 'string' ? type : 'anything'
}

function boundsOf(schema: Schema): string {
  return Object.entries(BOUNDS)
    .filter(([key]) => typeof schema[key] === 'number' && !isOfWholeNumbers(schema, key))
    .map(([key, sign]) => `${sign} ${String(schema[key])}`)
    .join(', ')
}

/** The ends of the integers that JSON can hold say nothing about the field. */
function isOfWholeNumbers(schema: Schema, key: string): boolean {
  return Math.abs(Number(schema[key])) === Number.MAX_SAFE_INTEGER
}

function description(schema: Schema): string {
  const text = schema['description']
  return typeof text === 'string' ? text.replaceAll('|', '\\|') : ''
}

function code(value: unknown): string {
  return `\`${JSON.stringify(value).replaceAll('|', '\\|')}\``
}

function nameOf(schema: Schema): string | null {
  const reference = schema['$ref']
  return typeof reference === 'string' ? (reference.split('/').pop() ?? null) : null
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}
