/**
 * Converts a JSON schema to a GBNF grammar whose every text is valid for the schema.
 *
 * The grammar may accept less than the schema (properties appear in schema order; additional properties are excluded
 * if any are named; a pattern must match the whole string), but never more: a keyword that cannot be enforced is
 * refused by name. If the client did not ask for strict mode, the keyword is ignored instead, and its name is
 * reported.
 */
import { BatonError, exactJson } from '../../base/index.ts'
import { invalidSchema, unsupported } from './grammar-refusal.ts'
import { gbnfText, jsonRules } from './json-gbnf.ts'
import { propertiesOf, refuseOtherNames } from './json-object-names.ts'
import { resolvePointer } from './json-pointer.ts'
import { isNever, SchemaFlattener } from './json-schema-flat.ts'
import { listOf } from './json-schema-list.ts'
import { merged } from './json-schema-merge.ts'
import { areDisjoint } from './json-schema-overlap.ts'
import { SchemaPlace } from './json-schema-place.ts'
import { isSchema, typesOf, valuesOfTypes } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'
import { integerGbnf, numberGbnf } from './number-gbnf.ts'
import { withPlainBounds } from './plain-bounds.ts'
import { weakerSchema } from './weaker-schema.ts'
import { countBound, stringGbnf } from './string-gbnf.ts'

const RULES_MAX = 5000
const ONE_OF_MAX = 100

/**
 * Throws `request.unsupported_parameter` or `request.invalid_argument`; the message contains the location in the
 * schema. With `relaxed`, unsupported keywords are ignored and their names are added to it.
 */
export function jsonSchemaToGbnf(schema: unknown, relaxed?: Set<string>): string {
  const place = new SchemaPlace()
  const plain = withPlainBounds(schema)
  const writer = new SchemaWriter(plain, place, relaxed)
  try {
    const root = writer.expression(plain)
    return `root ::= ws ${root}\n${writer.rules.join('')}${jsonRules()}`
  } catch (thrown) {
    if (!(thrown instanceof BatonError) || place.path.length === 0) throw thrown
    const where = place.path.map((part) => `/${part}`).join('')
    throw new BatonError(thrown.code, `${thrown.message} (in the schema at ${where})`, {
      data: thrown.data,
      cause: thrown,
    })
  }
}

class SchemaWriter {
  readonly rules: string[] = []
  readonly #place: SchemaPlace
  readonly #flattener: SchemaFlattener
  readonly #root: unknown
  readonly #relaxed: Set<string> | undefined
  #namesOfRefs = new Map<string, string>()
  /** References being expanded that have produced no text yet; to detect a reference to itself. */
  #open = new Set<string>()

  constructor(root: unknown, place: SchemaPlace, relaxed: Set<string> | undefined) {
    this.#root = root
    this.#place = place
    this.#relaxed = relaxed
    this.#flattener = new SchemaFlattener(root, place)
  }

  /** A GBNF expression that can be used anywhere: the name of a rule, or a group. */
  expression(given: unknown): string {
    return this.#relaxed === undefined
      ? this.#exact(given)
      : this.#relaxedExpression(given, this.#relaxed)
  }

  /** Ignores one keyword after the other until a grammar can express the rest. */
  #relaxedExpression(given: unknown, relaxed: Set<string>): string {
    const { length: ruleCount } = this.rules
    const { length: depth } = this.#place.path
    const names = new Map(this.#namesOfRefs)
    const open = new Set(this.#open)
    let schema = given
    for (;;) {
      try {
        return this.#exact(schema)
      } catch (thrown) {
        const weaker = weakerSchema(schema, thrown)
        if (weaker === null) throw thrown
        relaxed.add(weaker.keyword)
        schema = weaker.schema
        this.rules.length = ruleCount
        this.#place.path.length = depth
        this.#namesOfRefs = new Map(names)
        this.#open = new Set(open)
      }
    }
  }

  #exact(given: unknown): string {
    if (given === true) return 'value'
    if (given === false) throw invalidSchema('no value is valid for it')
    const schema = this.#flattener.flat(given)
    if (typeof schema === 'boolean') return this.expression(schema)
    if (typeof schema['$ref'] === 'string') return this.#reference(schema['$ref'])
    for (const keyword of ['anyOf', 'oneOf'] as const) {
      if (keyword in schema) return this.#alternatives(schema, keyword)
    }
    if ('const' in schema || 'enum' in schema) return listed(schema)
    const types = typesOf(schema)
    if (types.length === 0) return 'value'
    return group(types.map((type) => this.#typed({ ...schema, type })))
  }

  #alternatives(schema: Schema, keyword: 'anyOf' | 'oneOf'): string {
    const { [keyword]: given, ...rest } = schema
    const isPlain = Object.keys(rest).length === 0
    const options = listOf(given, keyword).flatMap((option, index) => {
      const both = isPlain
        ? option
        : this.#place.inside(`${keyword}/${index}`, () => this.#flattener.both(rest, option))
      return isNever(both) ? [] : [both]
    })
    if (options.length === 0) throw invalidSchema(`'${keyword}' leaves no option`)
    if (keyword === 'oneOf') this.#refuseOverlap(options)
    return group(
      options.map((option, index) =>
        this.#place.inside(`${keyword}/${index}`, () => this.expression(option)),
      ),
    )
  }

  /** Compares every pair of options. */
  #refuseOverlap(options: readonly unknown[]): void {
    if (options.length > ONE_OF_MAX) throw unsupported(`'oneOf' of more than ${ONE_OF_MAX} options`)
    const resolve = (schema: unknown): unknown =>
      isSchema(schema)
        ? this.#place.inside('oneOf', () => this.#flattener.resolved(schema))
        : schema
    const resolved = options.map(resolve)
    resolved.forEach((option, index) => {
      const rival = resolved.slice(0, index).find((other) => !areDisjoint(option, other, resolve))
      if (rival === undefined) return
      throw unsupported(
        `'oneOf' whose options may hold at once (option ${index + 1}); 'anyOf' can be held, and so can options ` +
          'that differ in type or in the constant of a required property',
      )
    })
  }

  #typed(schema: Schema): string {
    switch (schema['type']) {
      case 'object':
        return this.#object(schema)
      case 'array':
        return this.#array(schema)
      case 'string':
        return `( ${stringGbnf(schema)} ws )`
      case 'integer':
        return integerGbnf(schema)
      case 'number':
        return numberGbnf(schema)
      case 'boolean':
        return 'boolean'
      case 'null':
        return 'null'
      default:
        throw invalidSchema(`type ${JSON.stringify(schema['type'])} is not known`)
    }
  }

  #object(schema: Schema): string {
    const properties = propertiesOf(schema)
    if (properties.size === 0) return this.#map(schema)
    const required = new Set(listOf(schema['required'] ?? [], 'required').map(String))
    refuseOtherNames(schema, properties, required)
    let more = '""'
    const firsts: string[] = []
    // From the last property to the first: for each, what may follow with and without a preceding property.
    for (const [key, property] of [...properties].toReversed()) {
      const isRequired = required.has(key)
      if (isNever(property) && !isRequired) continue
      const value = this.#within(`properties/${key}`, () => this.expression(property))
      const pair = this.#rule(`${gbnfText(JSON.stringify(key))} ws ":" ws ${value}`)
      if (isRequired) firsts.length = 0
      firsts.unshift(`${pair} ${more}`)
      more = this.#rule(isRequired ? `"," ws ${pair} ${more}` : `( "," ws ${pair} )? ${more}`)
    }
    if (required.size === 0) firsts.push('""')
    return this.#rule(`"{" ws ${group(firsts)} "}" ws`)
  }

  #map(schema: Schema): string {
    const patterns = Object.entries(
      isSchema(schema['patternProperties']) ? schema['patternProperties'] : {},
    )
    const names = schema['propertyNames'] ?? true
    if (patterns.length > 1) throw unsupported("more than one of 'patternProperties'")
    if (patterns.length > 0 && names !== true)
      throw unsupported("'patternProperties' beside 'propertyNames'")
    const [pattern, ofPattern] = patterns[0] ?? []
    const least = countBound(schema, 'minProperties') ?? 0
    const most = countBound(schema, 'maxProperties')
    // A model may repeat a name, which would count only once.
    if (least > 1) throw unsupported("'minProperties' above 1")
    const extra = pattern === undefined ? (schema['additionalProperties'] ?? true) : ofPattern
    if (extra === false || most === 0) {
      if (least > 0) throw invalidSchema('no value is valid for it')
      return this.#rule('"{" ws "}" ws')
    }
    const key = this.#within('propertyNames', () =>
      this.expression(
        pattern === undefined ? merged({ type: 'string' }, names) : { type: 'string', pattern },
      ),
    )
    const where = pattern === undefined ? 'additionalProperties' : 'patternProperties'
    const pair = this.#rule(`${key} ":" ws ${this.#within(where, () => this.expression(extra))}`)
    return this.#rule(`"{" ws ${repeated(pair, least, most)} "}" ws`)
  }

  #array(schema: Schema): string {
    const least = countBound(schema, 'minItems') ?? 0
    let most = countBound(schema, 'maxItems')
    if (most !== undefined && most < least) throw invalidSchema("'maxItems' is below 'minItems'")
    if (schema['uniqueItems'] === true && (most ?? Infinity) > 1) throw unsupported("'uniqueItems'")
    const { items = true } = schema
    // Before draft 2020-12 `items` could be a list of schemas.
    const places = Array.isArray(items) ? items : listOf(schema['prefixItems'] ?? [], 'prefixItems')
    const rest = Array.isArray(items) ? (schema['additionalItems'] ?? true) : items
    if (places.length > 0) return this.#tuple(places, rest, least, most)
    if (rest === false) most = 0
    if (most === 0) {
      if (least > 0) throw invalidSchema('no value is valid for it')
      return this.#rule('"[" ws "]" ws')
    }
    const item = this.#named(this.#within('items', () => this.expression(rest)))
    return this.#rule(`"[" ws ${repeated(item, least, most)} "]" ws`)
  }

  /** Items by position; additional ones only if `minItems` requires them. */
  #tuple(
    places: readonly unknown[],
    rest: unknown,
    least: number,
    most: number | undefined,
  ): string {
    const count = Math.min(Math.max(places.length, least), most ?? Infinity)
    const items = Array.from({ length: count }, (_, index) => {
      const schema = index < places.length ? places[index] : rest
      return this.#within(`prefixItems/${index}`, () => this.expression(schema))
    })
    let tail = '""'
    for (const [index, item] of [...items.entries()].toReversed()) {
      const piece = `${index === 0 ? '' : '"," ws '}${item} ${tail}`
      tail = this.#rule(index < least ? piece : `( ${piece} )?`)
    }
    return this.#rule(`"[" ws ${tail} "]" ws`)
  }

  #reference(pointer: string): string {
    const known = this.#namesOfRefs.get(pointer)
    if (known !== undefined) {
      if (this.#open.has(known)) throw invalidSchema(`'${pointer}' refers to itself`)
      return known
    }
    const name = `ref-${this.#namesOfRefs.size}`
    this.#namesOfRefs.set(pointer, name)
    this.#open.add(name)
    const target = resolvePointer(this.#root, pointer)
    const body = this.#place.inside(pointer, () => this.expression(target))
    this.#open.delete(name)
    this.rules.push(`${name} ::= ${body}\n`)
    return name
  }

  /** After a bracket or comma some text has been produced, so a reference may be recursive. */
  #within<T>(part: string, write: () => T): T {
    const open = this.#open
    this.#open = new Set()
    const result = this.#place.inside(part, write)
    this.#open = open
    return result
  }

  /** A repeated expression becomes a rule, because llama.cpp expands repetitions. */
  #named(expression: string): string {
    return /^[\w-]+$/.test(expression) ? expression : this.#rule(expression)
  }

  #rule(body: string): string {
    if (this.rules.length >= RULES_MAX) throw invalidSchema('it is too large')
    const name = `rule-${this.rules.length}`
    this.rules.push(`${name} ::= ${body}\n`)
    return name
  }
}

function listed(schema: Schema): string {
  const fine = new Set(['const', 'enum', 'type'])
  const other = Object.keys(schema).find((keyword) => !fine.has(keyword))
  if (other !== undefined)
    throw unsupported(`'${'const' in schema ? 'const' : 'enum'}' together with '${other}'`)
  const both = merged(schema, 'const' in schema ? { const: schema['const'] } : true)
  const list = typeof both === 'boolean' ? [] : (both['enum'] ?? [])
  const values = valuesOfTypes(listOf(list, 'enum'), schema)
  if (values.length === 0) throw invalidSchema("'enum' leaves no value")
  return group(values.map((value) => `${gbnfText(exactJson(value))} ws`))
}

function repeated(item: string, least: number, most: number | undefined): string {
  const rest = `( "," ws ${item} ){${Math.max(0, least - 1)},${most === undefined ? '' : most - 1}}`
  return least === 0 ? `( ${item} ${rest} )?` : `${item} ${rest}`
}

function group(options: readonly string[]): string {
  return options.length === 1 && /^[\w-]+$/.test(options[0] ?? '')
    ? (options[0] ?? '')
    : `( ${options.join(' | ')} )`
}
