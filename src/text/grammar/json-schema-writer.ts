/** Writes the rules of the grammar of one JSON schema. */
import { readRegex } from '../regex/regex-syntax.ts'
import { countBound } from './count-bound.ts'
import type { GrammarRules } from './grammar-rules.ts'
import { attempted, invalidSchema, nothingValid } from '../gbnf/grammar-refusal.ts'
import { gbnfText } from '../gbnf/gbnf-literal.ts'
import { pairsGbnf } from './json-object-gbnf.ts'
import type { Pair } from './json-object-gbnf.ts'
import { propertiesOf } from './json-object-names.ts'
import { resolvePointer } from './json-pointer.ts'
import { SchemaFlattener } from './json-schema-flat.ts'
import { itemsOf } from './json-schema-items.ts'
import { isNever } from './json-schema-keywords.ts'
import { listOf, requiredOf } from './json-schema-list.ts'
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

const ONE_OF_MAX = 100
/** Properties of an object whose number is bounded. */
const COUNTED_MAX = 64

export interface WriterLimits {
  /** Longer lists of values are dropped. */
  readonly listMax: number
  /** Below this level any value of the type is allowed. */
  readonly depthMax: number
}

export const NO_LIMITS: WriterLimits = { listMax: Infinity, depthMax: Infinity }

export class SchemaWriter {
  readonly #root: unknown
  readonly #place: SchemaPlace
  readonly #context: SchemaContext
  readonly #limits: WriterLimits
  readonly #flattener: SchemaFlattener
  readonly #rules: GrammarRules

  constructor(
    root: unknown,
    place: SchemaPlace,
    context: SchemaContext,
    limits: WriterLimits,
    rules: GrammarRules,
  ) {
    this.#root = root
    this.#place = place
    this.#context = context
    this.#limits = limits
    this.#rules = rules
    this.#flattener = new SchemaFlattener(root, place, context)
  }

  /** A GBNF expression that can be used anywhere: the name of a rule, or a group. Throws `NothingValid`. */
  expression(given: unknown): string {
    if (given === true) return 'value'
    if (given === false) throw nothingValid()
    if (this.#place.path.length > this.#limits.depthMax)
      return shallow(given, (value) => this.#context.json(value))
    const schema = this.#flattener.flat(given)
    if (typeof schema === 'boolean') return this.expression(schema)
    if (typeof schema['$ref'] === 'string') return this.#reference(schema['$ref'])
    const isMerged = isSchema(given) && ('$ref' in given || 'allOf' in given)
    return isMerged
      ? this.#rules.shared(this.#context.json(schema), 'allOf', () => this.#written(schema))
      : this.#written(schema)
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
    const possible = options
      .map((write) => this.#rules.possible(write))
      .filter((text) => text !== null)
    if (possible.length === 0) throw nothingValid(why)
    return group(possible)
  }

  #findOverlap(options: readonly unknown[]): void {
    if (options.length > ONE_OF_MAX) {
      this.#context.drop('oneOf', `'oneOf' of more than ${ONE_OF_MAX} options`)
      return
    }
    const resolve = (schema: unknown): unknown =>
      isSchema(schema)
        ? this.#place.inside('oneOf', () => this.#flattener.resolved(schema))
        : schema
    const index = overlapOf(options, resolve, this.#context)
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
        return `( ${stringGbnf(schema, { schema: this.#context, define: this.#rules.define })} ws )`
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
      return group(values.map((value) => `${gbnfText(this.#context.json(value))} ws`))
    this.#context.drop('enum', `'enum' of ${values.length} values`)
    return null
  }

  #object(schema: Schema): string {
    const names = this.#flatNames(schema['propertyNames'] ?? true)
    const properties = propertiesOf(schema, names, this.#context)
    if (properties.size === 0) return this.#map(schema, names)
    const required = new Set(requiredOf(schema))
    // From the last property to the first: the rules are numbered and failures are reported in this order.
    const pairs: Pair[] = []
    for (const [key, property] of [...properties].toReversed()) {
      const isRequired = required.has(key)
      const write = (): string => {
        const value = this.#rules.within(`properties/${key}`, () => this.expression(property))
        return this.#rules.rule(`${gbnfText(this.#context.json(key))} ws ":" ws ${value}`)
      }
      const rule = isRequired ? write() : this.#rules.optional(write)
      if (rule !== null) pairs.push({ rule, isRequired })
    }
    const members = this.#members(schema, pairs.toReversed())
    if (members === null) throw nothingValid()
    return this.#rules.rule(`"{" ws ${members} "}" ws`)
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
    return pairsGbnf(pairs, [least, most], (body) => this.#rules.rule(body))
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
      const pair = this.#rules.named(group(pairs))
      return this.#rules.rule(`"{" ws ${repeated(pair, least, most)} "}" ws`)
    }
    if (least > 0) throw nothingValid()
    return this.#rules.rule('"{" ws "}" ws')
  }

  /** One pair for each pattern, or one for any name. */
  #mapPairs(schema: Schema, names: Schema | true): readonly string[] {
    const given = schema['patternProperties']
    const patterns = Object.entries(isSchema(given) ? given : {})
    const pair = (key: unknown, value: unknown, where: string): string | null =>
      this.#rules.possible(() => {
        const name = this.#rules.within('propertyNames', () => this.expression(key))
        return this.#rules.rule(
          `${name} ":" ws ${this.#rules.within(where, () => this.expression(value))}`,
        )
      })
    const anyName = merged({ type: 'string' }, names, this.#context)
    const pairs =
      patterns.length === 0
        ? [pair(anyName, schema['additionalProperties'] ?? true, 'additionalProperties')]
        : patterns.map(([pattern, own]) => {
            // A name may match several patterns.
            this.#context.spend(patterns.length)
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
    const write = (): string =>
      this.#rules.named(this.#rules.within('items', () => this.expression(rest)))
    const item = most === 0 ? null : least > 0 ? write() : this.#rules.optional(write)
    return this.#rules.rule(
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
        this.#rules.within(`prefixItems/${index}`, () => this.expression(schema))
      const item = index < least ? write() : this.#rules.optional(write)
      if (item === null) break
      items.push(item)
    }
    let tail = '""'
    for (const [index, item] of [...items.entries()].toReversed()) {
      const piece = `${index === 0 ? '' : '"," ws '}${item} ${tail}`
      tail = this.#rules.rule(index < least ? piece : `( ${piece} )?`)
    }
    return this.#rules.rule(`"[" ws ${tail} "]" ws`)
  }

  #reference(pointer: string): string {
    return this.#rules.shared(pointer, pointer, () =>
      this.expression(resolvePointer(this.#root, pointer, this.#context.drop)),
    )
  }
}
