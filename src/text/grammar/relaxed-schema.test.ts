import { describe, expect, it } from 'vitest'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { guidedGrammar } from './guided-grammar.ts'

/** Schemas that no grammar can hold; one value that the rest of the schema allows, and one that it does not. */
const CASES: readonly (readonly [string, unknown, unknown, unknown])[] = [
  ['uniqueItems', { type: 'array', items: { type: 'integer' }, uniqueItems: true }, [1, 1], ['a']],
  ['not', { type: 'string', not: { const: 'no' } }, 'no', 7],
  ['contains', { type: 'array', contains: { const: 1 }, items: { type: 'integer' } }, [2], [true]],
  ['multipleOf', { type: 'number', multipleOf: 0.3 }, 1.5, 'x'],
  ['pattern', { type: 'string', pattern: '\\bno' }, 'no', 4],
  ['format', { format: 'date', maxLength: 3 }, 'no', 4],
  ['oneOf', { oneOf: [{ type: 'integer' }, { type: 'number' }] }, 3, 'x'],
  [
    '$ref',
    { properties: { a: { $ref: 'https://example.org/a.json', const: 1 }, b: { $ref: '#c' } } },
    { a: 1, b: 2 },
    { a: 2 },
  ],
  ['if', { type: 'boolean', if: { const: true }, then: false }, true, 1],
  ['dependentRequired', { type: 'null', dependentRequired: { a: ['b'] } }, null, 1],
  ['minItems', { type: 'array', items: { const: 1 }, minItems: 5000 }, [1], [2]],
  ['minimum', { type: 'integer', minimum: 1e20 }, 5, 'x'],
  ['minItems', { enum: [[1], [2]], minItems: 1 }, [1], [3]],
  [
    'dependentRequired',
    {
      oneOf: [
        { type: 'object', properties: { k: { const: 1 } }, required: ['k'], dependentRequired: {} },
        { type: 'null' },
      ],
    },
    { k: 1 },
    { k: 2 },
  ],
  [
    'unevaluatedProperties',
    {
      allOf: [
        { properties: { a: { const: 1 } }, unevaluatedProperties: false },
        { required: ['a'] },
      ],
    },
    { a: 1 },
    { a: 2 },
  ],
  [
    'propertyNames',
    { properties: { a: { const: 1 } }, propertyNames: { pattern: '\\ba' } },
    { a: 1 },
    { a: 2 },
  ],
  [
    'patternProperties',
    { properties: { a: { const: 1 } }, patternProperties: { '\\ba': false } },
    { a: 1 },
    { a: 2 },
  ],
  ['minProperties', { additionalProperties: { const: 1 }, minProperties: 3 }, { a: 1 }, { a: 2 }],
  ['multipleOf', { type: 'number', multipleOf: 0.3, minimum: 2 }, 2.5, 1],
  ['unknown', { type: 'null', 'ключ\r\nx-evil: 1': 1 }, null, 1],
  ['minimum', { type: 'integer', minimum: 1e20, maximum: 1e21 }, 5, 'x'],
]

const text = (value: unknown) => JSON.stringify(value)

describe('a schema that is not in strict mode', () => {
  it.each(CASES)('%s - is ignored, the rest is enforced', (keyword, schema, right, wrong) => {
    const strict = { kind: 'json-schema', schema } as const
    expect(() => guidedGrammar(strict)).toThrow(/a grammar cannot express/)
    const relaxed = new Set<string>()
    const language = new GbnfLanguage(guidedGrammar({ ...strict, isRelaxed: true }, relaxed))
    expect([...relaxed].some((name) => name === keyword || keyword === 'minimum')).toBe(true)
    expect([language.has(text(right)), language.has(text(wrong))]).toEqual([true, false])
  })

  it('in a nested schema - only the keyword of that location is ignored', () => {
    const list = { type: 'array', items: { enum: [1, 2] }, uniqueItems: true, maxItems: 3 }
    const schema = {
      $defs: { list },
      type: 'object',
      properties: { a: { $ref: '#/$defs/list' }, b: { $ref: '#/$defs/list' } },
      required: ['a', 'b'],
    }
    const relaxed = new Set<string>()
    const guided = { kind: 'json-schema', schema, isRelaxed: true } as const
    const language = new GbnfLanguage(guidedGrammar(guided, relaxed))
    expect([...relaxed]).toEqual(['uniqueItems'])
    const has = (a: unknown, b: unknown) => language.has(`{"a":${text(a)},"b":${text(b)}}`)
    expect([has([1, 1], [2]), has([1, 1, 1, 1], []), has([3], [])]).toEqual([true, false, false])
  })

  it('a schema that can be enforced - nothing is ignored', () => {
    const relaxed = new Set<string>()
    const schema = { type: 'object', properties: { n: { type: 'integer' } } }
    const strict = { kind: 'json-schema', schema } as const
    expect(guidedGrammar({ ...strict, isRelaxed: true }, relaxed)).toBe(guidedGrammar(strict))
    expect(relaxed.size).toBe(0)
  })

  it('a schema that is too large - is enforced from the top as far as it fits', () => {
    const sizes = (schema: unknown, right: unknown, wrong: unknown) => {
      expect(() => guidedGrammar({ kind: 'json-schema', schema })).toThrow(
        /too large|nested deeper/,
      )
      const relaxed = new Set<string>()
      const guided = { kind: 'json-schema', schema, isRelaxed: true } as const
      const language = new GbnfLanguage(guidedGrammar(guided, relaxed))
      expect([language.has(text(right)), language.has(text(wrong))]).toEqual([true, false])
      return [...relaxed]
    }
    const values = Array.from({ length: 6000 }, (_, index) => `value-${index}`)
    const list = { properties: { a: { enum: values }, b: { const: 1 } }, required: ['a', 'b'] }
    expect(sizes(list, { a: 'x', b: 1 }, { a: 'x', b: 2 })).toEqual(['enum', 'size'])
    let deep: unknown = { type: 'null' }
    for (let level = 0; level < 100; level++)
      deep = { type: 'object', properties: { n: deep, k: { const: level } }, required: ['k'] }
    expect(sizes(deep, { k: 99 }, { k: 1 })).toEqual(['size'])
  })

  it('a forced call whose parameters are too large - keeps its name', () => {
    const properties = Object.fromEntries(
      Array.from({ length: 6000 }, (_, index) => [`p${index}`, { type: 'integer' }]),
    )
    const parameters = { type: 'object', properties }
    const call = (name: string) => ({
      type: 'object',
      properties: { name: { const: name }, arguments: parameters },
      required: ['name', 'arguments'],
    })
    for (const schema of [call('f'), { anyOf: [call('f'), call('g')] }, parameters]) {
      const relaxed = new Set<string>()
      const guided = { kind: 'json-schema', schema, isRelaxed: true } as const
      const language = new GbnfLanguage(guidedGrammar(guided, relaxed))
      expect([...relaxed]).toEqual(['size'])
      const isCall = schema !== parameters
      expect(language.has('{"name":"f","arguments":{"p5":1}}')).toBe(true)
      expect(language.has('{"name":"h","arguments":{"p5":1}}')).toBe(!isCall)
      expect(language.has('[]')).toBe(false)
    }
  })

  it('an invalid schema - stays refused', () => {
    const guided = { kind: 'json-schema', isRelaxed: true } as const
    for (const schema of [
      { type: 'colour' },
      { $ref: '#/nowhere' },
      { enum: [] },
      { minItems: -1 },
    ])
      expect(() => guidedGrammar({ ...guided, schema })).toThrow(/is invalid|must be|not/)
  })
})
