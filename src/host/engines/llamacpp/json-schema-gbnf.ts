/**
 * A JSON schema as a GBNF grammar whose every output is valid for the schema.
 *
 * The grammar may be narrower than the schema (properties come in the schema's order, and where it names some there
 * are no others), never wider: a keyword that cannot be enforced is refused by name. The one exception is `oneOf`,
 * which is read as `anyOf`. Words that only describe (`title`, `format`, …) are passed over, as the standard has it.
 */
import { BatonError } from '../../../base/index.ts'
import { gbnfText, jsonRules } from './json-gbnf.ts'
import { integerGbnf, numberGbnf } from './json-number-gbnf.ts'
import { typesOf, valuesOfTypes } from './json-schema-types.ts'

type Schema = Readonly<Record<string, unknown>>

const DEPTH_MAX = 64
const RULES_MAX = 2000
const ENFORCED = new Set(
  (
    '$ref $defs definitions type properties required additionalProperties items minItems maxItems enum const anyOf ' +
    'oneOf allOf minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum'
  ).split(' '),
)
const DESCRIBING = new Set(
  '$schema $id $comment $anchor title description default examples format deprecated readOnly writeOnly nullable strict name'.split(
    ' ',
  ),
)

/** Throws `request.unsupported_parameter` or `request.invalid_argument`. */
export function jsonSchemaToGbnf(schema: unknown): string {
  const writer = new SchemaWriter(schema)
  const root = writer.expression(schema, 0)
  return `root ::= ws ${root}\n${writer.rules.join('')}${jsonRules()}`
}

class SchemaWriter {
  readonly rules: string[] = []
  readonly #root: unknown
  readonly #namesOfRefs = new Map<string, string>()

  constructor(root: unknown) {
    this.#root = root
  }

  /** A GBNF expression that stands alone: a rule's name or a group. */
  expression(schema: unknown, depth: number): string {
    if (depth > DEPTH_MAX) throw invalid(`it is nested deeper than ${DEPTH_MAX} levels`)
    if (schema === true) return 'value'
    if (!isSchema(schema)) throw invalid('a schema must be an object or true')
    for (const keyword of Object.keys(schema)) {
      if (!ENFORCED.has(keyword) && !DESCRIBING.has(keyword)) throw unsupported(keyword)
    }
    if (typeof schema['$ref'] === 'string') {
      refuseBeside(schema, '$ref')
      return this.#reference(schema['$ref'], depth)
    }
    for (const keyword of ['const', 'enum']) {
      const value = schema[keyword]
      if (keyword === 'const' ? !('const' in schema) : !Array.isArray(value)) continue
      refuseBeside(schema, keyword, 'type')
      return literals(valuesOfTypes(keyword === 'const' ? [value] : (value as unknown[]), schema))
    }
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
      const options = schema[keyword]
      if (!Array.isArray(options)) continue
      refuseBeside(schema, keyword, 'type')
      if (keyword === 'allOf' && options.length !== 1) throw unsupported('allOf')
      const typed = options.map((option: unknown) => withType(option, schema['type'], keyword))
      return group(typed.map((option) => this.expression(option, depth + 1)))
    }
    const types = typesOf(schema)
    if (types.length === 0) return 'value'
    if (types.length === 1) return this.#typed({ ...schema, type: types[0] }, depth)
    return group(types.map((type) => this.#typed({ ...schema, type }, depth)))
  }

  #typed(schema: Schema, depth: number): string {
    switch (schema['type']) {
      case 'object':
        return this.#object(schema, depth)
      case 'array':
        return this.#array(schema, depth)
      case 'string':
        return stringGbnf(schema)
      case 'integer':
        return integerGbnf(schema)
      case 'number':
        return numberGbnf(schema)
      case 'boolean':
        return 'boolean'
      case 'null':
        return 'null'
      default:
        throw invalid(`type ${JSON.stringify(schema['type'])} is not known`)
    }
  }

  #object(schema: Schema, depth: number): string {
    const properties = isSchema(schema['properties']) ? schema['properties'] : {}
    const required = Array.isArray(schema['required']) ? schema['required'] : []
    for (const key of required) {
      if (!Object.hasOwn(properties, String(key)))
        throw invalid(`required property '${String(key)}' is not among the properties`)
    }
    const entries = Object.entries(properties)
    const extra = schema['additionalProperties']
    let first = '""'
    let more = '""'
    // Beside named properties there are no others: one could have the name of those, with a value that is not valid.
    if (entries.length === 0 && extra !== false) {
      const value = this.expression(extra ?? true, depth + 1)
      first = this.#rule(`( string ":" ws ${value} ( "," ws string ":" ws ${value} )* )?`)
    }
    // From the last property to the first: what may follow when nothing, or something, stands before it.
    for (const [key, property] of entries.toReversed()) {
      const value = this.expression(property, depth + 1)
      const pair = `${gbnfText(JSON.stringify(key))} ws ":" ws ${value}`
      const isRequired = required.includes(key)
      first = this.#rule(isRequired ? `${pair} ${more}` : `${pair} ${more} | ${first}`)
      more = this.#rule(isRequired ? `"," ws ${pair} ${more}` : `( "," ws ${pair} )? ${more}`)
    }
    return this.#rule(`"{" ws ${first} "}" ws`)
  }

  #array(schema: Schema, depth: number): string {
    const item = this.expression(schema['items'] ?? true, depth + 1)
    const least = bound(schema, 'minItems') ?? 0
    const most = bound(schema, 'maxItems')
    if (most === 0) return this.#rule('"[" ws "]" ws')
    const rest = `( "," ws ${item} ){${Math.max(0, least - 1)},${most === undefined ? '' : most - 1}}`
    const content = least === 0 ? `( ${item} ${rest} )?` : `${item} ${rest}`
    return this.#rule(`"[" ws ${content} "]" ws`)
  }

  #reference(pointer: string, depth: number): string {
    const known = this.#namesOfRefs.get(pointer)
    if (known !== undefined) return known
    const name = `ref-${this.#namesOfRefs.size}`
    this.#namesOfRefs.set(pointer, name)
    const target = this.expression(resolvePointer(this.#root, pointer), depth + 1)
    if (target === name) throw invalid(`'${pointer}' refers to itself`)
    this.rules.push(`${name} ::= ${target}\n`)
    return name
  }

  #rule(body: string): string {
    if (this.rules.length >= RULES_MAX) throw invalid('it is too large')
    const name = `rule-${this.rules.length}`
    this.rules.push(`${name} ::= ${body}\n`)
    return name
  }
}

/** Two keywords that both restrict would have to hold at once, which a grammar cannot say. */
function refuseBeside(schema: Schema, keyword: string, ...allowed: string[]): void {
  const fine = new Set([keyword, '$defs', 'definitions', ...allowed])
  const other = Object.keys(schema).find((key) => ENFORCED.has(key) && !fine.has(key))
  if (other !== undefined) throw unsupported(keyword, ` together with '${other}'`)
}

function withType(option: unknown, type: unknown, keyword: string): unknown {
  if (type === undefined || !isSchema(option) || option['type'] === type) return option
  if (option['type'] !== undefined) throw unsupported(keyword, " together with another 'type'")
  return { ...option, type }
}

function stringGbnf(schema: Schema): string {
  const least = bound(schema, 'minLength') ?? 0
  const most = bound(schema, 'maxLength')
  if (least === 0 && most === undefined) return 'string'
  return `( "\\"" char{${least},${most ?? ''}} "\\"" ws )`
}

function bound(schema: Schema, keyword: string): number | undefined {
  const value = schema[keyword]
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > 2000)
    throw invalid(`${keyword} must be a whole number from 0 to 2000`)
  return value
}

function literals(values: readonly unknown[]): string {
  if (values.length === 0) throw invalid('enum has no values')
  return group(values.map((value) => `${gbnfText(JSON.stringify(value) ?? 'null')} ws`))
}

function group(options: readonly string[]): string {
  if (options.length === 0) throw invalid('anyOf has no schemas')
  return `( ${options.join(' | ')} )`
}

function resolvePointer(root: unknown, pointer: string): unknown {
  if (!pointer.startsWith('#')) throw invalid(`'${pointer}' is not inside the schema`)
  let value = root
  for (const part of pointer.split('/').slice(1)) {
    const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')
    value = isSchema(value) && Object.hasOwn(value, key) ? value[key] : undefined
  }
  if (value === undefined) throw invalid(`'${pointer}' is not defined`)
  return value
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function invalid(what: string): BatonError {
  return new BatonError('request.invalid_argument', `the JSON schema cannot be used: ${what}`)
}

function unsupported(keyword: string, how = ''): BatonError {
  return new BatonError(
    'request.unsupported_parameter',
    `the JSON schema uses '${keyword}'${how}, which the llama.cpp engine cannot enforce`,
  )
}
