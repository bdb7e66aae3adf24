import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { seededDraw } from '../../../test/text/seeded-draw.ts'
import { guidedGrammar } from './guided-grammar.ts'

type Schema = Readonly<Record<string, unknown>>

/** Another reader of JSON Schema than the one that is tested. */
function validator(schema: Schema): (value: unknown) => boolean {
  const type = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0])
  return (value) => type.safeParse(value).success
}

/** Keywords that hold together. Schema, values that its grammar must be able to write, values that it must not. */
const ROWS: readonly (readonly [Schema, readonly unknown[], readonly unknown[]])[] = [
  [
    {
      type: 'object',
      properties: { a: {}, b: {}, c: {} },
      required: ['b'],
      minProperties: 2,
      maxProperties: 2,
    },
    [
      { a: 1, b: 1 },
      { b: 1, c: 1 },
    ],
    [{ b: 1 }, { a: 1, c: 1 }, { a: 1, b: 1, c: 1 }],
  ],
  [
    {
      properties: { a: { type: 'integer' }, b: {} },
      minProperties: 1,
      additionalProperties: false,
    },
    [{ a: 1 }, { b: 1 }, { a: 1, b: 1 }],
    [{}],
  ],
  [
    {
      type: 'object',
      properties: { x_a: {}, b: { type: 'null' } },
      required: ['x_c'],
      patternProperties: { '^x_': { type: 'integer' }, '.': { type: ['integer', 'null'] } },
    },
    [{ x_a: 1, b: null, x_c: 2 }],
    [{ x_a: null, x_c: 2 }, { x_c: 'a' }],
  ],
  [
    {
      type: 'object',
      patternProperties: { '^S_': { type: 'string' }, '^I_': { type: 'integer' } },
      additionalProperties: false,
    },
    [{}, { S_: 'a', I_: 1 }],
    [{ S_: 1 }, { I_: 'a' }, { other: 1 }],
  ],
  [
    {
      type: 'object',
      patternProperties: { a: { type: 'string' }, b: { type: ['string', 'null'] } },
    },
    [{ a: 'x', b: 'x' }],
    [{ a: 1 }, { b: null }],
  ],
  [{ properties: { aa: {}, b: {} }, propertyNames: { maxLength: 1 } }, [{}, { b: 1 }], [{ aa: 1 }]],
  [
    { allOf: [{ additionalProperties: false }, { patternProperties: { '^x': {} } }] },
    [{}],
    [{ x: 1 }],
  ],
  [
    {
      allOf: [
        { properties: { x: {} }, additionalProperties: { type: 'string' } },
        { patternProperties: { '^x': { type: 'integer' }, '^y': {} }, properties: { z: {} } },
      ],
    },
    [{ x: 1, z: 'a' }],
    [{ x: 'a' }, { z: 1 }],
  ],
  [{ enum: ['a', 'bc', 7, null], minLength: 2, minimum: 8 }, ['bc', null], ['a', 7]],
  [{ enum: ['ab', 'b'], pattern: '^a' }, ['ab'], ['b']],
  [{ format: 'date' }, ['2024-02-05'], ['a', 1]],
  [
    { type: 'string', pattern: '^(?=.*[A-Z])(?=.*\\d).{3,5}$' },
    ['aB1', '12A45'],
    ['abc', 'A1', 'ABCD12'],
  ],
  [{ type: 'string', pattern: '^(?!no)[a-z]+$' }, ['n', 'on', 'yes'], ['no', 'not', '']],
  [{ type: 'string', pattern: '^(?:a(?!b)[a-z]|c)d$' }, ['acd', 'cd'], ['abd']],
  [
    { type: 'string', pattern: '@example\\.org$', format: 'email' },
    ['a@example.org'],
    ['@example.org', 'a@b.org'],
  ],
  [
    { allOf: [{ pattern: '^a' }, { pattern: 'b$' }], maxLength: 3 },
    ['ab', 'axb'],
    ['a', 'b', 'axxb'],
  ],
  [{ type: 'string', pattern: 'b', minLength: 3, maxLength: 3 }, ['abc', 'bbb'], ['b', 'aaa']],
  [
    {
      allOf: [{ prefixItems: [{ type: 'integer' }] }, { items: { type: ['integer', 'null'] } }],
      maxItems: 2,
    },
    [[1]],
    [[null], ['a']],
  ],
  [{ type: 'integer', minimum: 3, exclusiveMinimum: false, maximum: 4 }, [3, 4], [2, 5]],
  [{ type: 'integer', minimum: 3, exclusiveMinimum: true, maximum: 4 }, [4], [3]],
  [{ type: 'array', items: false }, [[]], [[1]]],
  [{ type: 'array', items: { enum: [] } }, [[]], [[1]]],
  [{ type: 'object', additionalProperties: { allOf: [false] } }, [{}], [{ a: 1 }]],
  [{ type: ['integer', 'string'], minimum: 3, maximum: 2 }, ['a'], [3]],
  [
    { anyOf: [{ properties: { a: false }, required: ['a'] }, { type: 'null' }] },
    [null],
    [{ a: 1 }],
  ],
  [
    {
      properties: { kind: { enum: ['a', 'b'] } },
      required: ['kind'],
      anyOf: [
        { properties: { kind: { const: 'a' } }, additionalProperties: false },
        { properties: { kind: { const: 'c' } }, additionalProperties: false },
      ],
    },
    [{ kind: 'a' }],
    [{ kind: 'b' }, { kind: 'c' }],
  ],
  [
    {
      properties: {
        next: { $ref: '#' },
        endless: { $ref: '#/$defs/e' },
        any: { anyOf: [{ $ref: '#/$defs/e' }, { type: 'null' }] },
      },
      $defs: { e: { type: 'object', properties: { e: { $ref: '#/$defs/e' } }, required: ['e'] } },
    },
    [{}, { next: { any: null } }],
    [{ endless: {} }, { any: {} }],
  ],
  [
    {
      $defs: {
        n: {
          properties: { c: { $ref: '#/$defs/n', type: 'object' }, v: { type: 'integer' } },
          type: 'object',
        },
      },
      allOf: [{ $ref: '#/$defs/n' }, { required: ['v'] }],
    },
    [{ v: 1 }, { c: { c: {} }, v: 1 }],
    [{}, { c: 1, v: 1 }],
  ],
]

describe('keywords of a JSON schema together', () => {
  it.each(ROWS)(
    '%j - the grammar generates valid values and no others',
    (schema, valid, invalid) => {
      const own = new GbnfLanguage(guidedGrammar({ kind: 'json-schema', schema }))
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
})
