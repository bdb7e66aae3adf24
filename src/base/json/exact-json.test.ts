import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseExactJson, withExactIntegers } from './exact-json.ts'

describe('JSON with exact integers', () => {
  it.each([
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', 9007199254740992n],
    ['-9007199254740991', -9007199254740991],
    ['-9007199254740993', -9007199254740993n],
    ['[12345678901234567890]', [12345678901234567890n]],
    ['{"a":{"b":[1,18446744073709551615]}}', { a: { b: [1, 18446744073709551615n] } }],
    // None of these is an integer that was written out.
    ['1234567890123456789.5', Number('1234567890123456789.5')],
    ['0.12345678901234567890', Number('0.12345678901234567890')],
    ['12345678901234567890e2', Number('12345678901234567890e2')],
    ['1e1234567890123456', Infinity],
    ['"12345678901234567890"', '12345678901234567890'],
    [
      '{"12345678901234567890":"\\"12345678901234567890"}',
      { '12345678901234567890': '"12345678901234567890' },
    ],
  ])('%s', (json, value) => {
    expect(parseExactJson(json)).toEqual(value)
  })

  it('a duplicate name - the last value counts, as in JSON.parse', () => {
    expect(parseExactJson('{"a":12345678901234567890,"a":"12345678901234567891"}')).toEqual({
      a: '12345678901234567891',
    })
    expect(parseExactJson('{"a":"x","a":12345678901234567891}')).toEqual({
      a: 12345678901234567891n,
    })
  })

  it('members that are not named - are parsed as by JSON.parse', () => {
    const json = '{"kept":{"id":12345678901234567890},"id":12345678901234567890}'
    const value = withExactIntegers(JSON.parse(json), json, (_, key) => key === 'kept')
    expect(value).toEqual({ kept: { id: 12345678901234567890n }, id: 12345678901234567000 })
  })

  it('invalid JSON - throws a SyntaxError', () => {
    for (const json of ['', '{', '012345678901234567890', '--12345678901234567890']) {
      expect(() => parseExactJson(json), json).toThrow(SyntaxError)
    }
  })

  it('everything else - is parsed as by JSON.parse', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.stringify(value)
        const plain: unknown = JSON.parse(json)
        const asNumbers = (exact: unknown): unknown =>
          JSON.parse(
            JSON.stringify(exact, (_, each: unknown) =>
              typeof each === 'bigint' ? Number(each) : each,
            ),
          )
        expect(asNumbers(parseExactJson(json))).toEqual(plain)
      }),
    )
  })
})
