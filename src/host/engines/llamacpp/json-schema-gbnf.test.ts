import { describe, expect, it } from 'vitest'
import { BatonError } from '../../../base/index.ts'
import { jsonSchemaToGbnf } from './json-schema-gbnf.ts'

function codeOf(schema: unknown): string {
  try {
    jsonSchemaToGbnf(schema)
    return 'accepted'
  } catch (error) {
    return error instanceof BatonError ? `${error.code}: ${error.message}` : String(error)
  }
}

describe('JSON schema to grammar', () => {
  it('required and optional properties - in the schema’s order, commas only between', () => {
    const grammar = jsonSchemaToGbnf({
      type: 'object',
      properties: { a: { type: 'null' }, b: { type: 'boolean' } },
      required: ['b'],
      additionalProperties: false,
    })
    expect(grammar).toContain('"\\"a\\"" ws ":" ws null')
    expect(grammar.startsWith('root ::= ws rule-')).toBe(true)
  })

  it('a schema that refers to itself - ends in one rule', () => {
    const node = { type: 'object', properties: { next: { $ref: '#/$defs/node' } } }
    const grammar = jsonSchemaToGbnf({ $ref: '#/$defs/node', $defs: { node } })
    expect(grammar.match(/^ref-0 ::=/gm)).toHaveLength(1)
  })

  it.each([
    [
      { type: 'string', pattern: 'a+' },
      "request.unsupported_parameter: the JSON schema uses 'pattern'",
    ],
    [{ not: {} }, "request.unsupported_parameter: the JSON schema uses 'not'"],
    [{ type: 'integer', minimum: 0, maximum: 5000 }, 'request.unsupported_parameter'],
    [{ type: 'number', maximum: 5 }, 'request.unsupported_parameter'],
    [{ allOf: [{}, {}] }, "request.unsupported_parameter: the JSON schema uses 'allOf'"],
    [{ $ref: '#/$defs/none' }, 'request.invalid_argument'],
    [{ $ref: 'https://example.org/a' }, 'request.invalid_argument'],
    [{ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } }, 'request.invalid_argument'],
    [{ type: 'object', required: ['x'] }, 'request.invalid_argument'],
    [{ type: 'text' }, 'request.invalid_argument'],
    [{ type: 'integer', minimum: 3, maximum: 2 }, 'request.unsupported_parameter'],
    ['text', 'request.invalid_argument'],
    [{ enum: [] }, 'request.invalid_argument'],
    [{ enum: [1], type: 'string' }, 'request.invalid_argument'],
    [{ anyOf: [{ type: 'null' }], minItems: 1 }, "'anyOf' together with 'minItems'"],
    [{ anyOf: [{ type: 'null' }], type: 'array' }, "'anyOf' together with another 'type'"],
    [{ $ref: '#/$defs/a', minimum: 1, $defs: { a: {} } }, "'$ref' together with 'minimum'"],
  ])('what cannot be enforced - is refused by name: %j', (schema, message) => {
    expect(codeOf(schema)).toContain(message)
  })

  it('named properties - leave no room for others, which could have their names', () => {
    const properties = { a: { type: 'null' } }
    const closed = { type: 'object', properties, additionalProperties: false }
    expect(jsonSchemaToGbnf({ ...closed, additionalProperties: true })).toBe(
      jsonSchemaToGbnf(closed),
    )
  })

  it('keywords without type - mean their type; type leaves what it allows of an enum', () => {
    const typed = { type: 'string', minLength: 2 }
    expect(jsonSchemaToGbnf({ minLength: 2 })).toBe(jsonSchemaToGbnf(typed))
    expect(jsonSchemaToGbnf({ type: 'string', enum: ['a', 1] })).toBe(
      jsonSchemaToGbnf({ const: 'a' }),
    )
    expect(jsonSchemaToGbnf({ type: 'string', anyOf: [{ minLength: 2 }] })).toBe(
      jsonSchemaToGbnf({ anyOf: [typed] }),
    )
  })

  it('nesting without end - is refused, not followed', () => {
    let schema: unknown = { type: 'null' }
    for (let i = 0; i < 200; i++) schema = { type: 'array', items: schema }
    expect(codeOf(schema)).toContain('request.invalid_argument')
  })

  it('bounds of integers - listed, or open on the side of the large numbers', () => {
    expect(jsonSchemaToGbnf({ type: 'integer', minimum: 1, maximum: 3 })).toContain(
      '"1" | "2" | "3"',
    )
    expect(codeOf({ type: 'integer', minimum: 0 })).toBe('accepted')
    expect(
      codeOf({
        type: 'integer',
        minimum: Number.MIN_SAFE_INTEGER,
        maximum: Number.MAX_SAFE_INTEGER,
      }),
    ).toBe('accepted')
  })
})
