/** Writes the rules of the grammar of one JSON schema. */
import { exactJson } from '../../base/index.ts'
import { heightsOf } from '../gbnf/gbnf-heights.ts'
import { GBNF_LENGTH_MAX } from '../gbnf/gbnf-limits.ts'
import { parseGbnf } from '../gbnf/gbnf-syntax.ts'
import { readRegex } from '../regex/regex-syntax.ts'
import { countBound } from './count-bound.ts'
import {
  attempted,
  GrammarTooLarge,
  invalidSchema,
  nothingValid,
  NothingValid,
} from '../gbnf/grammar-refusal.ts'
import { gbnfText } from '../gbnf/gbnf-literal.ts'
import { pairsGbnf } from './json-object-gbnf.ts'
import type { Pair } from './json-object-gbnf.ts'
import { propertiesOf } from './json-object-names.ts'
import { resolvePointer } from './json-pointer.ts'
import { SchemaFlattener } from './json-schema-flat.ts'
import { itemsOf } from './json-schema-items.ts'
import { isNever } from './json-schema-keywords.ts'
import { listOf } from './json-schema-list.ts'
import { isValidLiteral } from './json-schema-literal.ts'
import { merged } from './json-schema-merge.ts'
import { overlapOf } from './json-schema-overlap.ts'
import type { SchemaPlace } from './json-schema-place.ts'
import { isSchema, typesOf, valuesOfTypes } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'
import { integerGbnf, numberGbnf } from './number-gbnf.ts'
import { arePatternsDisjoint } from './pattern-list.ts'
import type { SchemaContext } from './schema-context.ts'
import { group, repeated, shallow } from './schema-expressions.ts'
import { stringGbnf } from './string-gbnf.ts'

const RULES_MAX = 5000
const ONE_OF_MAX = 100
/** Properties of an object whose number is bounded. */
const COUNTED_MAX = 64

export interface WriterLimits {
  /** Longer lists of values are dropped. */
  readonly listMax: number
  /** Below this level any value of the type is allowed. */
  readonly depthMax: number
  /** References of which no text ever ends. */
  readonly endless?: ReadonlySet<string> | undefined
}

export const NO_LIMITS: WriterLimits = { listMax: Infinity, depthMax: Infinity }

export class SchemaWriter {
  readonly rules: string[] = []
  readonly #root: unknown
  readonly #place: SchemaPlace
  readonly #context: SchemaContext
  readonly #limits: WriterLimits
  readonly #flattener: SchemaFlattener
  /** Of references, and of schemas that were merged with one. */
  readonly #names = new Map<string, string>()
  /** References whose rules are being written and whose texts need what is being written. */
  #needing = new Set<string>()
  /** Those of them that have produced no text yet; to detect a reference to itself. */
  #open = new Set<string>()
  #mayBeEndless = false
  #nameCount = 0
  /** Characters of all rules, also of those that were taken back. */
  #length = 0

  constructor(root: unknown, place: SchemaPlace, context: SchemaContext, limits: WriterLimits) {
    this.#root = root
    this.#place = place
    this.#context = context
    this.#limits = limits
    this.#flattener = new SchemaFlattener(root, place, context)
  }

  /** A GBNF expression that can be used anywhere: the name of a rule, or a group. Throws `NothingValid`. */
  expression(given: unknown): string {
    if (given === true) return 'value'
    if (given === false) throw nothingValid()
    if (this.#place.path.length > this.#limits.depthMax) return shallow(given)
    const schema = this.#flattener.flat(given)
    if (typeof schema === 'boolean') return this.expression(schema)
    if (typeof schema['$ref'] === 'string') return this.#reference(schema['$ref'])
    const isMerged = isSchema(given) && ('$ref' in given || 'allOf' in given)
    return isMerged
      ? this.#shared(exactJson(schema), 'allOf', () => this.#written(schema))
      : this.#written(schema)
  }

  /** The references and merged schemas of which no text ends, by the grammar's rules. */
  endless(gbnf: string): ReadonlySet<string> {
    if (!this.#mayBeEndless) return new Set()
    const heights = heightsOf(parseGbnf(gbnf))
    return new Set([...this.#names].filter(([, name]) => !heights.has(name)).map(([key]) => key))
  }

  #written(schema: Schema): string {
    for (const keyword of ['anyOf', 'oneOf'] as const) {
      if (keyword in schema) return this.#alternatives(schema, keyword)
    }
    if ('const' in schema || 'enum' in schema) {
      const listed = this.#listed(schema)
      if (listed !== null) return listed
    }
    const types = typesOf(schema)
    if (types.length === 0) return 'value'
    return this.#oneOf(
      types.map((type) => () => this.#typed({ ...schema, type })),
      'no value is valid for it',
    )
  }

  #alternatives(schema: Schema, keyword: 'anyOf' | 'oneOf'): string {
    const { [keyword]: given, ...rest } = schema
    const isPlain = Object.keys(rest).length === 0
    const options = listOf(given, keyword).map((option, index) =>
      isPlain
        ? option
        : this.#place.inside(`${keyword}/${index}`, () => this.#flattener.both(rest, option)),
    )
    if (keyword === 'oneOf') this.#findOverlap(options.filter((option) => !isNever(option)))
    return this.#oneOf(
      options.map(
        (option, index) => () =>
          this.#place.inside(`${keyword}/${index}`, () => this.expression(option)),
      ),
      `'${keyword}' leaves no option`,
    )
  }

  /** Of the options those for which some value is valid. */
  #oneOf(options: readonly (() => string)[], why: string): string {
    if (options.length === 1 && options[0] !== undefined) return group([options[0]()])
    const possible = options.map((write) => this.#possible(write)).filter((text) => text !== null)
    if (possible.length === 0) throw nothingValid(why)
    return group(possible)
  }

  #findOverlap(options: readonly unknown[]): void {
    if (options.length > ONE_OF_MAX) {
      this.#context.drop('oneOf', `'oneOf' of more than ${ONE_OF_MAX} options`)
      return
    }
    const index = overlapOf(options, (schema) =>
      isSchema(schema)
        ? this.#place.inside('oneOf', () => this.#flattener.resolved(schema))
        : schema,
    )
    if (index === null) return
    this.#context.drop(
      'oneOf',
      `'oneOf' whose options may hold at once (option ${index + 1}); 'anyOf' can be held, and so can options ` +
        'that differ in type or in the constant of a required property',
    )
  }

  #typed(schema: Schema): string {
    switch (schema['type']) {
      case 'object':
        return this.#object(schema)
      case 'array':
        return this.#array(schema)
      case 'string':
        return `( ${stringGbnf(schema, { schema: this.#context, define: this.#define })} ws )`
      case 'integer':
        return integerGbnf(schema, this.#context.drop)
      case 'number':
        return numberGbnf(schema, this.#context.drop)
      case 'boolean':
        return 'boolean'
      case 'null':
        return 'null'
      default:
        throw invalidSchema(`type ${JSON.stringify(schema['type'])} is not known`)
    }
  }

  /** Null: the list is dropped. */
  #listed(schema: Schema): string | null {
    const { const: constant, enum: list, ...rest } = schema
    const both = merged(
      'const' in schema ? { const: constant } : true,
      'enum' in schema ? { enum: list } : true,
      this.#context,
    )
    const given = typeof both === 'boolean' ? [] : (both['enum'] ?? [])
    const values = valuesOfTypes(listOf(given, 'enum'), schema).filter((value) => {
      const isValid = isValidLiteral(value, rest, this.#context)
      if (typeof isValid === 'boolean') return isValid
      for (const keyword of isValid)
        this.#context.drop(keyword, `'enum' together with '${keyword}'`)
      return true
    })
    if (values.length === 0) throw nothingValid("'enum' leaves no value")
    if (values.length <= this.#limits.listMax)
      return group(values.map((value) => `${gbnfText(exactJson(value))} ws`))
    this.#context.drop('enum', `'enum' of ${values.length} values`)
    return null
  }

  #object(schema: Schema): string {
    const names = this.#flatNames(schema['propertyNames'] ?? true)
    const properties = propertiesOf(schema, names, this.#context)
    if (properties.size === 0) return this.#map(schema, names)
    const required = new Set(listOf(schema['required'] ?? [], 'required').map(String))
    // From the last property to the first, so that a failure is reported at the same place as before.
    const pairs: Pair[] = []
    for (const [key, property] of [...properties].toReversed()) {
      const isRequired = required.has(key)
      const write = (): string => {
        const value = this.#within(`properties/${key}`, () => this.expression(property))
        return this.#rule(`${gbnfText(JSON.stringify(key))} ws ":" ws ${value}`)
      }
      const rule = isRequired ? write() : this.#optional(write)
      if (rule !== null) pairs.unshift({ rule, isRequired })
    }
    const members = this.#members(schema, pairs)
    if (members === null) throw nothingValid()
    return this.#rule(`"{" ws ${members} "}" ws`)
  }

  /** Only the named members: another one could repeat a named property with an invalid value. */
  #members(schema: Schema, pairs: readonly Pair[]): string | null {
    let least = countBound(schema, 'minProperties', this.#context.drop) ?? 0
    let most = countBound(schema, 'maxProperties', this.#context.drop) ?? Infinity
    const required = pairs.filter(({ isRequired }) => isRequired).length
    if (least > pairs.length && schema['additionalProperties'] !== false) {
      this.#context.drop('minProperties', "'minProperties' beyond the named ones")
      least = pairs.length
    }
    const isCounted = least > required || most < pairs.length
    if (isCounted && pairs.length > COUNTED_MAX) {
      const keyword = least > required ? 'minProperties' : 'maxProperties'
      this.#context.drop(keyword, `'${keyword}' beside more than ${COUNTED_MAX} properties`)
      least = 0
      most = Infinity
    }
    return pairsGbnf(pairs, [least, most], (body) => this.#rule(body))
  }

  #map(schema: Schema, names: Schema | boolean): string {
    let least = countBound(schema, 'minProperties', this.#context.drop) ?? 0
    const most = countBound(schema, 'maxProperties', this.#context.drop)
    // A model may repeat a name, which would count only once.
    if (least > 1) {
      this.#context.drop('minProperties', "'minProperties' above 1")
      least = 1
    }
    const pairs = names === false || most === 0 ? [] : this.#mapPairs(schema, names)
    if (pairs.length > 0) {
      const pair = this.#named(group(pairs))
      return this.#rule(`"{" ws ${repeated(pair, least, most)} "}" ws`)
    }
    if (least > 0) throw nothingValid()
    return this.#rule('"{" ws "}" ws')
  }

  /** One pair for each pattern, or one for any name. */
  #mapPairs(schema: Schema, names: Schema | true): readonly string[] {
    const given = schema['patternProperties']
    const patterns = Object.entries(isSchema(given) ? given : {})
    const pair = (key: unknown, value: unknown, where: string): string | null =>
      this.#possible(() => {
        const name = this.#within('propertyNames', () => this.expression(key))
        return this.#rule(`${name} ":" ws ${this.#within(where, () => this.expression(value))}`)
      })
    const anyName = merged({ type: 'string' }, names, this.#context)
    const pairs =
      patterns.length === 0
        ? [pair(anyName, schema['additionalProperties'] ?? true, 'additionalProperties')]
        : patterns.map(([pattern, own]) => {
            // A name may match several patterns.
            const value = patterns
              .filter(([other]) => other !== pattern && !arePatternsDisjoint(pattern, other))
              .reduce((all, [, other]) => merged(all, other, this.#context), own)
            return pair(this.#nameOf(pattern, anyName), value, 'patternProperties')
          })
    return pairs.filter((text) => text !== null)
  }

  #nameOf(pattern: string, anyName: Schema | boolean): unknown {
    const read = attempted(() => readRegex(pattern))
    if ('value' in read) return merged(anyName, { type: 'string', pattern }, this.#context)
    this.#context.drop('patternProperties', read.what.replace("'pattern'", "'patternProperties'"))
    return anyName
  }

  #flatNames(names: unknown): Schema | boolean {
    if (typeof names === 'boolean') return names
    return this.#place.inside('propertyNames', () => this.#flattener.resolved(names))
  }

  #array(schema: Schema): string {
    const least = countBound(schema, 'minItems', this.#context.drop) ?? 0
    const most = countBound(schema, 'maxItems', this.#context.drop)
    if (most !== undefined && most < least) throw nothingValid("'maxItems' is below 'minItems'")
    if (schema['uniqueItems'] === true && (most ?? Infinity) > 1)
      this.#context.drop('uniqueItems', "'uniqueItems'")
    const { places, rest } = itemsOf(schema)
    if (places.length > 0) return this.#tuple(places, rest, least, most)
    const write = (): string => this.#named(this.#within('items', () => this.expression(rest)))
    const item = most === 0 ? null : least > 0 ? write() : this.#optional(write)
    return this.#rule(
      item === null ? '"[" ws "]" ws' : `"[" ws ${repeated(item, least, most)} "]" ws`,
    )
  }

  /** Items by position; additional ones only if `minItems` requires them. */
  #tuple(
    places: readonly unknown[],
    rest: unknown,
    least: number,
    most: number | undefined,
  ): string {
    const count = Math.min(Math.max(places.length, least), most ?? Infinity)
    const items: string[] = []
    for (let index = 0; index < count; index++) {
      const schema = index < places.length ? places[index] : rest
      const write = (): string =>
        this.#within(`prefixItems/${index}`, () => this.expression(schema))
      const item = index < least ? write() : this.#optional(write)
      if (item === null) break
      items.push(item)
    }
    let tail = '""'
    for (const [index, item] of [...items.entries()].toReversed()) {
      const piece = `${index === 0 ? '' : '"," ws '}${item} ${tail}`
      tail = this.#rule(index < least ? piece : `( ${piece} )?`)
    }
    return this.#rule(`"[" ws ${tail} "]" ws`)
  }

  #reference(pointer: string): string {
    return this.#shared(pointer, pointer, () =>
      this.expression(resolvePointer(this.#root, pointer, this.#context.drop)),
    )
  }

  /** One rule for all uses of a schema, which may contain itself. */
  #shared(key: string, place: string, write: () => string): string {
    if (this.#limits.endless?.has(key) === true) throw nothingValid()
    const known = this.#names.get(key)
    if (known !== undefined) {
      if (this.#open.has(known)) throw invalidSchema(`'${place}' refers to itself`)
      if (this.#needing.has(known)) this.#mayBeEndless = true
      return known
    }
    const name = `ref-${this.#nameCount++}`
    this.#names.set(key, name)
    this.#open.add(name)
    this.#needing.add(name)
    const body = this.#place.inside(place, write)
    this.#open.delete(name)
    this.#needing.delete(name)
    this.rules.push(`${name} ::= ${body}\n`)
    return name
  }

  /** After a bracket or comma some text has been produced, so a reference may be recursive. */
  #within<T>(part: string, write: () => T): T {
    const open = this.#open
    this.#open = new Set()
    try {
      return this.#place.inside(part, write)
    } finally {
      this.#open = open
    }
  }

  /** The same for what a text does not need. */
  #optional(write: () => string): string | null {
    const needing = this.#needing
    this.#needing = new Set()
    try {
      return this.#possible(write)
    } finally {
      this.#needing = needing
    }
  }

  /** Null: nothing is valid there. What was written for it is taken back. */
  #possible(write: () => string): string | null {
    const { length: ruleCount } = this.rules
    const { length: depth } = this.#place.path
    const { size: nameCount } = this.#names
    try {
      return write()
    } catch (thrown) {
      if (!(thrown instanceof NothingValid)) throw thrown
      this.rules.length = ruleCount
      this.#place.path.length = depth
      for (const [key, name] of [...this.#names].slice(nameCount)) {
        this.#names.delete(key)
        this.#open.delete(name)
        this.#needing.delete(name)
      }
      return null
    }
  }

  /** A repeated expression becomes a rule, because llama.cpp expands repetitions. */
  #named(expression: string): string {
    return /^[\w-]+$/.test(expression) ? expression : this.#rule(expression)
  }

  #rule(body: string): string {
    const name = `rule-${this.rules.length}`
    this.#push(`${name} ::= ${body}\n`)
    return name
  }

  readonly #define = (write: (name: string) => string | null): string | null => {
    const name = `text-${this.#nameCount++}`
    const rules = write(name)
    if (rules === null) return null
    this.#push(rules)
    return name
  }

  #push(rule: string): void {
    this.#length += rule.length
    if (this.rules.length >= RULES_MAX || this.#length > GBNF_LENGTH_MAX)
      throw new GrammarTooLarge('the JSON schema is invalid: it is too large')
    this.rules.push(rule)
  }
}
