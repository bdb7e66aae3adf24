/** Random JSON schemas, with the keywords and combinations that clients send, and some that contradict each other. */
import { seededDraw } from './seeded-draw.ts'

type Schema = Record<string, unknown>

/** Names that code could take for keywords or markup. */
const NAMES =
  'a b c kind default enum const type required example $ref items constructor __proto__x ключ 🦊 x_1'
    .split(' ')
    .concat('', 'x y', '"q"\\', '<tag>', 'a\nb')
const PATTERNS = [
  '^[A-Z]{2}-\\d{3}$',
  'x',
  '^(foo|ba[rz])$',
  '^\\S+@\\S+$',
  '^[^a-z]{2,5}$',
  '^(?:ab){1,3}c?$',
  '^\\p{L}+$',
  '^(?=.*[A-Z])(?=.*\\d).{4,}$',
  '^(?!no)[a-z]+$',
  '^é{2}',
  'a|b',
  '\\bword\\b',
]
const FORMATS = 'date-time date time uuid email hostname ipv4 ipv6 uri duration int32 other'.split(
  ' ',
)
const VALUES = [
  1,
  0,
  -1.5,
  'a',
  '',
  'é"\\\n🦊',
  null,
  true,
  [1, 'x'],
  { a: 1 },
  {},
  1e21,
  1e-7,
  '\ud83d',
]
const NAME_PATTERNS = ['^x_', '^[a-c]$', '\\d$', '', '\\bx']
const NAME_SCHEMAS = [
  { pattern: '^[a-z]{1,3}$' },
  { enum: ['a', 'b', 'zz'] },
  { maxLength: 4 },
  true,
]
const HARD: readonly Schema[] = [
  { dependentRequired: { a: ['b'] } },
  { if: { properties: { a: { const: 1 } } }, then: { required: ['b'] } },
  { unevaluatedProperties: false },
  { not: { const: 'a' } },
]
const BESIDE_REFERENCE: readonly Schema[] = [
  { minimum: 0 },
  { required: ['a'] },
  { maxLength: 3 },
  { type: 'object' },
  { additionalProperties: false },
]

export function randomSchema(seed: string): Schema {
  return new SchemaDraw(seed).root()
}

class SchemaDraw {
  readonly #random: () => number
  readonly #defined: string[]

  constructor(seed: string) {
    this.#random = seededDraw(seed).random
    this.#defined = ['node', 'a/b', 'x~y', 'default'].slice(0, this.#int(0, 3))
  }

  root(): Schema {
    const root = this.#chance(0.8) ? this.#object(3) : this.#any(3)
    const own = root === true ? {} : root
    if (this.#defined.length === 0) return own
    const $defs = Object.fromEntries(this.#defined.map((name) => [name, this.#object(2)]))
    return { ...own, $defs }
  }

  #any(depth: number): Schema | true {
    const kind = this.#random()
    if (depth <= 0 || kind < 0.35) return this.#leaf()
    if (kind < 0.62) return this.#object(depth)
    if (kind < 0.76) return this.#array(depth)
    if (kind < 0.84) return { anyOf: this.#list(1, 3, () => this.#any(depth - 1)) }
    if (kind < 0.91) return this.#options(depth)
    if (kind < 0.95) return { allOf: this.#list(1, 3, () => this.#object(depth - 1)) }
    return this.#reference()
  }

  #leaf(): Schema | true {
    const kind = this.#random()
    if (kind < 0.28) return this.#number()
    if (kind < 0.58) return this.#string()
    if (kind < 0.66) return { type: this.#one(['boolean', 'null']) }
    if (kind < 0.72) return { const: this.#one(VALUES) }
    if (kind < 0.84) {
      const bounded = this.#chance(0.2) ? this.#one([{ minLength: 1 }, { minimum: 0 }]) : {}
      return { enum: this.#list(1, 5, () => this.#one(VALUES)), ...bounded }
    }
    if (kind < 0.88) return this.#one([{}, true, { format: this.#one(FORMATS) }, { minLength: 2 }])
    if (kind < 0.94) return { type: [this.#one(['string', 'integer']), 'null'] }
    return this.#reference()
  }

  #number(): Schema {
    const schema: Schema = { type: this.#one(['integer', 'number']) }
    const low = this.#one([-5, 0, 0.5, -1.25, 1000])
    if (this.#chance(0.5)) schema[this.#one(['minimum', 'exclusiveMinimum'])] = low
    if (this.#chance(0.5)) schema['maximum'] = low + this.#one([1, 2.5, 10, 1000])
    if (this.#chance(0.2)) schema['multipleOf'] = this.#one([1, 2, 5, 0.5, 7, 100, 0.3])
    return schema
  }

  #string(): Schema {
    const schema: Schema = { type: 'string' }
    if (this.#chance(0.3)) schema['pattern'] = this.#one(PATTERNS)
    if (this.#chance(0.3)) schema['format'] = this.#one(FORMATS)
    const least = this.#int(0, 5)
    if (this.#chance(0.3)) schema['minLength'] = least
    if (this.#chance(0.3)) schema['maxLength'] = least + this.#int(0, 30)
    return schema
  }

  #array(depth: number): Schema {
    const schema: Schema = { type: 'array' }
    if (this.#chance(0.8)) schema['items'] = this.#any(depth - 1)
    if (this.#chance(0.2)) {
      schema['prefixItems'] = this.#list(1, 3, () => this.#any(depth - 1))
      if (this.#chance(0.4)) schema['items'] = false
    }
    const least = this.#int(0, 2)
    if (this.#chance(0.4)) schema['minItems'] = least
    if (this.#chance(0.5)) schema['maxItems'] = least + this.#int(0, 3)
    if (this.#chance(0.1)) schema['uniqueItems'] = true
    if (this.#chance(0.05)) schema['contains'] = this.#leaf()
    return schema
  }

  #object(depth: number): Schema {
    const names = [...new Set(this.#list(0, 4, () => this.#one(NAMES)))]
    const properties = Object.fromEntries(names.map((name) => [name, this.#any(depth - 1)]))
    const schema: Schema = { type: 'object', ...(this.#chance(0.9) ? { properties } : {}) }
    if (this.#chance(0.7)) schema['required'] = names.filter(() => this.#chance(0.6))
    if (this.#chance(0.5)) schema['additionalProperties'] = this.#chance(0.7) ? false : this.#leaf()
    if (this.#chance(0.12)) {
      const patterns = this.#list(
        1,
        2,
        () => [this.#one(NAME_PATTERNS), this.#any(depth - 1)] as const,
      )
      schema['patternProperties'] = Object.fromEntries(patterns)
    }
    if (this.#chance(0.1)) schema['propertyNames'] = this.#one(NAME_SCHEMAS)
    if (this.#chance(0.1)) schema['minProperties'] = this.#int(0, 2)
    if (this.#chance(0.1)) schema['maxProperties'] = this.#int(1, 5)
    return this.#chance(0.08) ? { ...schema, ...this.#one(HARD) } : schema
  }

  /** `oneOf`, mostly with a discriminator. */
  #options(depth: number): Schema {
    const options = this.#list(1, 4, () => this.#object(depth - 1))
    if (this.#chance(0.2)) return { oneOf: options }
    const told = options.map((option, index) => ({
      ...option,
      properties: { ...(option['properties'] as Schema | undefined), kind: { const: `k${index}` } },
      required: ['kind', ...((option['required'] as string[] | undefined) ?? [])],
    }))
    return { oneOf: told, discriminator: { propertyName: 'kind' } }
  }

  #reference(): Schema {
    const name = this.#one(this.#defined)
    if (name === undefined) return { type: 'string' }
    const $ref = `#/$defs/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    return this.#chance(0.3) ? { $ref, ...this.#one(BESIDE_REFERENCE) } : { $ref }
  }

  #list<T>(least: number, most: number, draw: () => T): T[] {
    return Array.from({ length: this.#int(least, most) }, draw)
  }

  #one<T>(values: readonly T[]): T {
    return values[Math.floor(this.#random() * values.length)] as T
  }

  #int(least: number, most: number): number {
    return least + Math.floor(this.#random() * (most - least + 1))
  }

  #chance(share: number): boolean {
    return this.#random() < share
  }
}
