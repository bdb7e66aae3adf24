import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { BatonError } from '../../base/index.ts'
import { anySchema } from '../../../test/text/any-schema.ts'
import type { Schema } from '../../../test/text/any-schema.ts'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { seededDraw } from '../../../test/text/seeded-draw.ts'
import { guidedGrammar } from './guided-grammar.ts'

function language(schema: unknown): GbnfLanguage {
  return new GbnfLanguage(guidedGrammar({ kind: 'json-schema', schema }))
}

/** Another reader of JSON Schema than the one that is tested. */
function validator(schema: Schema): (value: unknown) => boolean {
  const type = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0])
  return (value) => type.safeParse(value).success
}

function refusal(schema: unknown): string {
  try {
    guidedGrammar({ kind: 'json-schema', schema })
    return 'accepted'
  } catch (error) {
    return error instanceof BatonError ? `${error.code}: ${error.message}` : String(error)
  }
}

const node = {
  type: 'object',
  properties: {
    label: { enum: ['a', 'b'] },
    next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] },
  },
  required: ['label', 'next'],
  additionalProperties: false,
}
const cat = {
  type: 'object',
  properties: { kind: { const: 'cat' }, lives: { type: 'integer', maximum: 9 } },
  required: ['kind'],
}
const dog = { type: 'object', properties: { kind: { const: 'dog' } }, required: ['kind'] }

/** Has every keyword. */
const EVERYTHING: Schema = {
  $defs: { node },
  type: ['object', 'array', 'string', 'integer', 'null'],
  properties: {
    a: { $ref: '#/$defs/node' },
    b: { type: 'string', pattern: '^a+$', minLength: 1, maxLength: 3, format: 'date' },
    c: { type: 'integer', minimum: 1, maximum: 9, exclusiveMinimum: 0, multipleOf: 2 },
    d: { type: 'array', items: { const: 1 }, prefixItems: [{}], minItems: 1, maxItems: 2 },
    e: { oneOf: [cat, dog] },
    f: { anyOf: [{ enum: ['x', 2] }, { allOf: [cat, { required: ['lives'] }] }] },
  },
  patternProperties: { '^x': { type: 'null' } },
  propertyNames: { maxLength: 9 },
  required: ['a', 'g'],
  additionalProperties: { type: 'boolean' },
  minProperties: 1,
  maxProperties: 9,
}

/** The paths of all values within a value. */
function placesIn(value: unknown): string[][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [
    [key],
    ...placesIn(inner).map((place) => [key, ...place]),
  ])
}

function setAt(holder: unknown, [key = '', ...rest]: readonly string[], value: unknown): void {
  const record = holder as Record<string, unknown>
  if (rest.length === 0) record[key] = value
  else setAt(record[key], rest, value)
}

/** Schema, values that its grammar must be able to write, values that it must not. */
const ROWS: readonly (readonly [Schema, readonly unknown[], readonly unknown[]])[] = [
  [
    {
      type: 'object',
      properties: { a: { type: 'null' }, b: { type: 'boolean' }, c: {} },
      required: ['b'],
    },
    [{ b: true }, { a: null, b: false }, { b: true, c: [1] }],
    [{}, { a: null }, { c: 1 }, { a: 1, b: true }],
  ],
  [
    {
      type: 'object',
      properties: { 'ключ "ü" \\ 🦊\n': { const: 'é' } },
      required: ['ключ "ü" \\ 🦊\n'],
      additionalProperties: false,
    },
    [{ 'ключ "ü" \\ 🦊\n': 'é' }],
    [{}, { a: 1 }],
  ],
  [
    {
      type: 'object',
      additionalProperties: { type: 'integer' },
      minProperties: 1,
      maxProperties: 2,
    },
    [{ a: 1 }, { a: 1, b: 2 }],
    [{}, { a: 'x' }, { a: 1, b: 2, c: 3 }],
  ],
  [
    { type: 'object', propertyNames: { pattern: '^x_[a-z]+$' } },
    [{}, { x_a: 1 }],
    [{ a: 1 }, { x_: 1 }],
  ],
  [
    {
      type: 'object',
      patternProperties: { '^n': { type: 'number' } },
      additionalProperties: false,
    },
    [{}, { n: 1 }],
    [{ n: 'a' }, { a: 1 }],
  ],
  [{ type: 'object', required: ['free'] }, [{ free: 1 }, { free: { a: [] } }], [{}, { other: 1 }]],
  [
    { type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 3 },
    [[1], [1, 2, 3]],
    [[], [1, 2, 3, 4], ['a']],
  ],
  [
    {
      type: 'array',
      prefixItems: [{ type: 'string' }, { type: 'integer' }],
      items: false,
      minItems: 1,
    },
    [['a'], ['a', 1]],
    [[], [1], ['a', 1, 2]],
  ],
  [
    { type: 'array', items: [{ type: 'string' }, { type: 'null' }], minItems: 2 },
    [['a', null]],
    [['a'], [null, 'a']],
  ],
  [{ type: 'array', maxItems: 0 }, [[]], [[1]]],
  [{ type: 'string', minLength: 2, maxLength: 3 }, ['ab', '🦊🦊🦊', '"\\'], ['a', 'abcd']],
  [{ type: 'string', pattern: '^[A-Z]{2}-\\d{3}$' }, ['AB-123'], ['ab-123', 'AB-12', 'xAB-123']],
  [{ type: 'string', pattern: '^[a-f]{2,8}$', maxLength: 8, minLength: 1 }, ['ab'], ['a', 'gg']],
  [{ enum: ['x', 1, null, true, 'ü"\\'] }, ['x', 1, null, true, 'ü"\\'], [2, 'y', false, {}]],
  [{ type: ['string', 'null'] }, ['a', null], [1, {}]],
  [{ anyOf: [{ type: 'boolean' }, { const: 'none' }] }, [true, 'none'], ['other', 1]],
  [
    { oneOf: [{ type: 'integer' }, { type: 'string' }, { type: 'null' }] },
    [1, 'a', null],
    [true, {}],
  ],
  [
    { oneOf: [cat, dog] },
    [{ kind: 'cat' }, { kind: 'cat', lives: 9 }, { kind: 'dog' }],
    [{ kind: 'cat', lives: 10 }, { kind: 'cow' }],
  ],
  [
    {
      allOf: [
        { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] },
        { properties: { b: { type: 'string' } }, required: ['b'] },
      ],
    },
    [{ a: 1, b: 'x' }],
    [{ a: 1 }, { b: 'x' }, { a: 'x', b: 'x' }],
  ],
  [{ allOf: [{ type: 'integer', minimum: 3 }, { maximum: 5 }, { minimum: 4 }] }, [4, 5], [3, 6]],
  [
    {
      type: 'object',
      properties: { a: {}, b: {} },
      anyOf: [{ required: ['a'] }, { required: ['b'] }],
    },
    [{ a: 1 }, { b: 1 }, { a: 1, b: 1 }],
    [{}],
  ],
  [{ type: 'string', anyOf: [{ minLength: 2 }, { enum: ['x', 7] }] }, ['ab', 'x'], ['y', 7]],
  [
    {
      anyOf: [{ type: 'string' }, { type: 'integer' }],
      allOf: [{ anyOf: [{ minimum: 3 }, { maxLength: 2 }] }],
    },
    [3, 'ab'],
    [2.5, true],
  ],
  [
    {
      $ref: '#/$defs/n',
      minimum: 2,
      $defs: { n: { type: 'integer', maximum: 4, description: 'small' } },
    },
    [2, 4],
    [1, 5],
  ],
  [
    { $ref: '#/$defs/node', $defs: { node } },
    [
      { label: 'a', next: null },
      { label: 'a', next: { label: 'b', next: null } },
    ],
    [{ label: 'c', next: null }, { label: 'a' }],
  ],
  [{ minLength: 2 }, ['ab'], ['a', 1]],
  [{ minimum: 0 }, [0, 1.5], [-1]],
  [{ type: 'object', properties: { never: false, a: true } }, [{}, { a: 1 }], [{ never: 1 }]],
  [{ anyOf: [{ type: 'null' }, { not: {} }] }, [null], [1]],
  [
    {
      type: 'object',
      properties: {
        price: { type: 'number', exclusiveMinimum: 0, maximum: 9.99, multipleOf: 0.01 },
      },
      required: ['price'],
    },
    [{ price: 0.01 }, { price: 9.99 }],
    [{ price: 0 }, { price: 10 }, { price: 0.001 }],
  ],
]

describe('JSON schema to grammar', () => {
  it.each(ROWS)(
    '%j - the grammar generates valid values and no others',
    (schema, valid, invalid) => {
      const own = language(schema)
      for (const value of valid)
        expect([value, own.has(JSON.stringify(value))]).toEqual([value, true])
      for (const value of invalid)
        expect([value, own.has(JSON.stringify(value))]).toEqual([value, false])
      const isValid = validator(schema)
      const { random } = seededDraw(JSON.stringify(schema))
      for (let i = 0; i < 25; i++) {
        const text = own.draw(random)
        expect([text, isValid(JSON.parse(text))]).toEqual([text, true])
      }
    },
  )

  it('random schemas - texts of the grammar are valid for the schema', () => {
    fc.assert(
      fc.property(anySchema, fc.string({ maxLength: 4 }), (schema, seed) => {
        const own = language(schema)
        const isValid = validator(schema)
        const { random } = seededDraw(seed)
        for (let i = 0; i < 5; i++) {
          const text = own.draw(random)
          expect([schema, text, isValid(JSON.parse(text))]).toEqual([schema, text, true])
        }
      }),
      { numRuns: 150 },
    )
  })

  it.each<[unknown, string]>([
    [{ not: { type: 'null' } }, "'not'"],
    [{ type: 'object', dependentRequired: {} }, "'dependentRequired'"],
    [{ if: {}, then: {} }, "'if'"],
    [{ type: 'array', contains: {} }, "'contains'"],
    [{ type: 'array', uniqueItems: true }, "'uniqueItems'"],
    [{ unevaluatedProperties: false }, "'unevaluatedProperties'"],
    [{ misspelt: 1 }, "'misspelt'"],
    [{ type: 'object', minProperties: 2 }, "'minProperties'"],
    [{ $ref: 'https://example.org/a' }, "'$ref' to 'https://example.org/a'"],
    [{ properties: { a: { $ref: '#anchor' } } }, "'$ref' to '#anchor'"],
    [{ type: 'object', properties: { a: {} }, minProperties: 2 }, "'minProperties' beyond"],
    [{ properties: { a: {} }, patternProperties: { '\\b': {} } }, "'patternProperties' beside 'a'"],
    [
      { properties: { a: {} }, propertyNames: { pattern: '\\b' } },
      "'propertyNames' with 'pattern'",
    ],
    [{ type: 'string', pattern: '(?=a)*b' }, "'pattern' with a repeated look-ahead"],
    [{ type: 'string', pattern: '^(?=x*)(a|b)*a(a|b){15}$' }, "'pattern' of this size"],
    [{ enum: [[1]], minItems: 1 }, "'enum' together with 'minItems'"],
    [{ enum: ['x'], format: 'date' }, "'enum' together with 'format'"],
    [{ format: 'date', maxLength: 5 }, "'format' of which no text was found"],
    [{ format: 'date', pattern: 'x' }, "'format' of which no text was found"],
    [{ oneOf: [{ minimum: 3 }, { minLength: 2 }] }, "'oneOf' whose options may hold at once"],
    [
      {
        oneOf: [
          { type: 'object', properties: { a: {} }, required: ['a'] },
          { type: 'object', patternProperties: { a: {} }, additionalProperties: false },
        ],
      },
      "'oneOf' whose options may hold at once",
    ],
    [{ type: 'array', minItems: 1001 }, "'minItems' above 1000"],
    [{ type: 'string', minLength: 100_001 }, "'minLength' above 100000"],
    [{ type: 'integer', multipleOf: 7 }, "'multipleOf'"],
    [{ type: 'number', multipleOf: 0.3 }, "'multipleOf'"],
    [
      { oneOf: [{ type: 'integer' }, { type: 'number' }] },
      "'oneOf' whose options may hold at once",
    ],
    [{ oneOf: [cat, { type: 'object' }] }, "'oneOf' whose options may hold at once"],
  ])('%j - constraints that a grammar cannot express are refused by name', (schema, name) => {
    expect(refusal(schema)).toContain('request.unsupported_parameter')
    expect(refusal(schema)).toContain(name)
  })

  it.each<[unknown, string]>([
    [{ $ref: '#/$defs/none' }, 'is not defined'],
    [{ $ref: 3 }, 'not a JSON pointer'],
    [{ $ref: '#/%ff' }, 'not a JSON pointer'],
    [{ type: 'object', properties: { a: {} }, required: ['a', 5] }, "'required' must be"],
    [{ type: 'object', required: [null] }, "'required' must be"],
    [{ allOf: [{ required: [{}] }, { type: 'object' }] }, "'required' must be"],
    [{ $ref: '#' }, 'refers to itself'],
    [
      { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } },
      'refers to itself',
    ],
    [{ anyOf: [{ $ref: '#' }, { type: 'null' }] }, 'refers to itself'],
    [{ $ref: '#', minimum: 1 }, 'nested deeper'],
    [{ type: 'text' }, 'not known'],
    [{ type: 'integer', minimum: 3, maximum: 2 }, 'no number'],
    [{ type: 'array', minItems: 3, maxItems: 2 }, "'maxItems'"],
    [{ type: 'array', maxItems: 1.5 }, "'maxItems'"],
    [{ type: 'string', maxLength: -1 }, "'maxLength'"],
    ['text', 'an object'],
    [{ enum: [] }, 'no value'],
    [{ enum: [1], type: 'string' }, 'no value'],
    [{ anyOf: [{ type: 'null' }, false], type: 'array' }, 'no option'],
    [{ type: 'string', pattern: '^a{3}$', maxLength: 2 }, "no text matches 'pattern'"],
    [{ type: 'string', pattern: '^(?!a)a' }, "no text matches 'pattern'"],
    [{ type: 'object', properties: { n: { $ref: '#' } }, required: ['n'] }, 'no value'],
    [{ type: 'array', items: { $ref: '#' }, minItems: 1 }, 'no value'],
    [
      { type: 'object', properties: { a: {} }, minProperties: 2, additionalProperties: false },
      'no value',
    ],
    [
      { type: 'object', properties: { a: {}, b: {} }, required: ['a', 'b'], maxProperties: 1 },
      'no value',
    ],
    [{ allOf: [{ type: 'null' }, { type: 'array' }] }, 'no value'],
    [{ type: 'object', properties: {}, required: ['x'], additionalProperties: false }, 'no value'],
    [false, 'no value'],
  ])('%j - an invalid schema is refused', (schema, why) => {
    expect(refusal(schema)).toContain('request.invalid_argument')
    expect(refusal(schema)).toContain(why)
  })

  it.each(placesIn(EVERYTHING).map((place) => [place] as const))(
    '%j - an object that has no text in its place is accepted or refused',
    (place) => {
      const schema = structuredClone(EVERYTHING)
      // `String` throws a TypeError for it.
      setAt(schema, place, { toString: 1, valueOf: 2 })
      expect(refusal(schema)).toMatch(/^accepted|^request\./)
    },
  )

  it('an error in a nested schema - names the location', () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'array', items: { anyOf: [{}, { not: { const: 1 } }] } } },
    }
    expect(refusal(schema)).toContain('(in the schema at /properties/a/items/anyOf/1)')
  })

  it('pointers with escapes, and values of any shape in a list', () => {
    const pointer = { $ref: '#/$defs/a~1b%20c', $defs: { 'a/b c': { enum: [{ a: [1] }, []] } } }
    const own = language(pointer)
    expect(own.has('{"a":[1]}') && own.has('[]')).toBe(true)
    expect(own.has('{}')).toBe(false)
  })

  it('descriptive keywords - have no effect', () => {
    const words = {
      title: 't',
      description: 'd',
      default: 1,
      examples: [],
      'x-order': 1,
      discriminator: {},
      deprecated: true,
    }
    expect(guidedGrammar({ kind: 'json-schema', schema: { type: 'integer', ...words } })).toBe(
      guidedGrammar({ kind: 'json-schema', schema: { type: 'integer' } }),
    )
  })

  it('endless nesting and exponential growth - are refused', () => {
    let schema: unknown = { type: 'null' }
    for (let i = 0; i < 200; i++) schema = { type: 'array', items: schema }
    expect(refusal(schema)).toContain('nested deeper')
    const twice = (next: number) => ({ allOf: [{ $ref: `#/$defs/d${next}` }, { required: ['a'] }] })
    const doubling = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [
        `d${i}`,
        { type: 'object', properties: { a: twice(i + 1), b: twice(i + 1) } },
      ]),
    )
    const all = { $ref: '#/$defs/d0', $defs: { ...doubling, d40: { type: 'object' } } }
    expect(refusal(all)).toMatch(/nested deeper|too large/)
    const pattern = `${'('.repeat(30)}ab?${'){1,3}'.repeat(30)}`
    expect(refusal({ pattern, minLength: 3, maxLength: 4 })).toMatch(
      /accepted|these lengths|too large/,
    )
  })
})
