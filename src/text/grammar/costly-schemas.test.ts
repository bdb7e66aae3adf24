/** Schemas that a few lines make as costly as a client likes: the work of one conversion is bounded. */
import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { guidedGrammar } from './guided-grammar.ts'

type Schema = Readonly<Record<string, unknown>>

function numbered<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index))
}

function named(count: number, name: string, make: (index: number) => unknown): Schema {
  return Object.fromEntries(numbered(count, (index) => [`${name}${index}`, make(index)]))
}

/** Each definition consists of two of the next one: 2^30 parts. */
function doubling(other: string): Schema {
  const next = (name: string, index: number): Schema => ({ $ref: `#/$defs/${name}${index + 1}` })
  const both = (index: number): Schema => ({
    allOf: [next('a', index), next(other, index)],
  })
  return {
    $ref: '#/$defs/a0',
    $defs: {
      ...named(31, 'a', (i) => (i < 30 ? both(i) : { anyOf: [{ type: 'string' }, {}] })),
      ...named(31, 'b', (i) => (i < 30 ? both(i) : { anyOf: [{ type: 'null' }, {}] })),
    },
  }
}

const nestedObjects = (depth: number, kind: string): Schema => ({
  type: 'object',
  properties: named(30, 'p', () =>
    depth === 0 ? { enum: numbered(30, (i) => `${i}`) } : { $ref: `#/$defs/${kind}${depth - 1}` },
  ),
  required: numbered(30, (index) => `p${index}`),
})

const COSTLY: Readonly<Record<string, Schema>> = {
  'the same definition twice in each definition': doubling('a'),
  'two definitions in each definition': doubling('b'),
  'names that are looked up in a list of names': {
    type: 'object',
    propertyNames: { enum: numbered(20_000, (index) => `x${index}`) },
    properties: named(20_000, 'p', () => ({ type: 'null' })),
  },
  'names that are compared with patterns': {
    type: 'object',
    patternProperties: named(10_000, 'x', () => ({ type: 'null' })),
    properties: named(10_000, 'p', () => ({ type: 'null' })),
  },
  'patterns that are compared with each other': {
    type: 'object',
    patternProperties: named(20_000, 'x', () => ({ type: 'null' })),
  },
  'options that are compared with each other': {
    oneOf: numbered(100, (index) => ({ enum: numbered(1000, (i) => `${index}-${i}`) })),
  },
  'objects that are compared property by property': {
    oneOf: [{ $ref: '#/$defs/a3' }, { $ref: '#/$defs/b3' }],
    $defs: {
      ...named(4, 'a', (index) => nestedObjects(index, 'a')),
      ...named(4, 'b', (index) => nestedObjects(index, 'b')),
    },
  },
  'a constant of megabytes in many places': {
    type: 'object',
    properties: named(200, 'p', () => ({ $ref: '#/$defs/text' })),
    $defs: { text: { allOf: [{ const: '\u0001'.repeat(4_000_000) }, {}] } },
  },
  'required names without an end': {
    type: 'object',
    required: numbered(300_000, (index) => `x${index}`),
  },
  'large lists that are merged again and again': {
    allOf: numbered(100, () => ({ enum: numbered(2000, (index) => `${index}`) })),
  },
}

describe('costly schemas', () => {
  it.each(Object.entries(COSTLY))('%s - are refused', (_name, schema) => {
    expect(() => guidedGrammar({ kind: 'json-schema', schema })).toThrow(BatonError)
  })

  it.each(Object.entries(COSTLY))('%s, not strict - the client is told', (_name, schema) => {
    const relaxed = new Set<string>()
    expect(guidedGrammar({ kind: 'json-schema', schema, isRelaxed: true }, relaxed)).toMatch(
      /^root/,
    )
    expect([...relaxed]).not.toEqual([])
  })

  it('a reference of megabytes - is refused', () => {
    const schema = { $ref: `#/${'a/'.repeat(5_000_000)}` }
    expect(() => guidedGrammar({ kind: 'json-schema', schema })).toThrow(/'\$ref' of more than/)
  })

  it.each([
    ['one after the other of megabytes', numbered(500, () => 'x'.repeat(10_000_000))],
    ['without an end', numbered(1_000_000, () => 'x')],
  ])('choices %s - are refused before anything is written', (_name, choices) => {
    expect(() => guidedGrammar({ kind: 'choice', choices })).toThrow(/grammar is too large/)
  })

  it('a large schema that is not costly - is enforced', () => {
    const item = { type: 'object', properties: named(40, 'p', () => ({ $ref: '#/$defs/text' })) }
    const schema = {
      type: 'object',
      properties: named(40, 'part', () => ({ allOf: [item, { required: ['p0'] }] })),
      $defs: { text: { type: 'string', maxLength: 40 } },
    }
    expect(guidedGrammar({ kind: 'json-schema', schema })).toMatch(/^root/)
  })
})
