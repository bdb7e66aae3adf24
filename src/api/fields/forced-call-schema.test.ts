import { describe, expect, it } from 'vitest'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { guidedGrammar } from '../../text/index.ts'
import { forcedCallSchema } from './forced-call-schema.ts'

describe('the schema of a forced call', () => {
  it('references of parameters whose names are keywords - point into the embedded schema', () => {
    const reference = { $ref: '#/$defs/place' }
    const parameters = {
      type: 'object',
      properties: { default: reference, enum: { items: reference }, $ref: reference, a: reference },
      required: ['default'],
      default: { $ref: '#/data' },
      $defs: { place: { enum: ['x'], default: { $ref: '#/data' } }, const: reference },
    }
    const schema = forcedCallSchema([{ type: 'function', function: { name: 'f', parameters } }])
    const moved = { $ref: '#/properties/arguments/$defs/place' }
    expect(schema).toMatchObject({
      properties: {
        arguments: {
          properties: { default: moved, enum: { items: moved }, $ref: moved, a: moved },
          default: { $ref: '#/data' },
          $defs: { place: { enum: ['x'], default: { $ref: '#/data' } }, const: moved },
        },
      },
    })
  })

  it('references to other documents and anchors - are not changed', () => {
    const parameters = {
      properties: { a: { $ref: '#anchor' }, b: { $ref: 'https://a.example/b' } },
    }
    const schema = forcedCallSchema([{ type: 'function', function: { name: 'f', parameters } }])
    expect(schema).toMatchObject({ properties: { arguments: parameters } })
  })

  it.each([
    [{}, { a: 1 }, 1],
    [{ type: ['object', 'null'] }, {}, null],
    [
      { anyOf: [{ $ref: '#/$defs/a' }, { type: 'array' }], $defs: { a: { required: ['b'] } } },
      { b: 1 },
      [],
    ],
  ])('parameters %j - arguments are an object', (parameters, right, wrong) => {
    const schema = forcedCallSchema([{ type: 'function', function: { name: 'f', parameters } }])
    const language = new GbnfLanguage(guidedGrammar({ kind: 'json-schema', schema }))
    const call = (value: unknown): string => JSON.stringify({ name: 'f', arguments: value })
    expect([language.has(call(right)), language.has(call(wrong))]).toEqual([true, false])
  })
})
