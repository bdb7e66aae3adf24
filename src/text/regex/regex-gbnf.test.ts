import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { seededDraw } from '../../../test/text/seeded-draw.ts'
import { guidedGrammar } from '../grammar/guided-grammar.ts'

const PATTERNS = [
  'abc',
  '^abc$',
  'a|b|',
  '(a|b)*c',
  'a{3}',
  'a{2,}b{0,2}',
  '(?:ab)+?',
  '(?<year>\\d{4})-\\d\\d',
  '[a-cx-z]',
  '[^a-z]',
  '[\\w.-]+@[\\w-]+\\.[a-z]{2,3}',
  '[]x]?a',
  '\\S+ \\s\\W',
  '.*',
  'é[à-ü]+中🦊',
  '\\u0041\\x42\\u{1F98A}',
  '"\\\\\\n\\t\\/',
  '[\\]\\\\^-]',
  '^(a$|^b$)',
  '^a|b$',
  '',
  '(a|b|)*c',
  '(?:a?b*)+',
  '(?:x*)*y',
  '(?:a?){2,}z',
  '()*a',
  '(?:(?:a|)+b?|c{0}|d*?)*?',
  '(?:(?:a?b?){3}c?)*x',
  '(?:a?){3}b',
  '(?:a?b{0,2}(?:c|)){1,2}',
  '(?:(?:a{0,2}){2}|b?){2}x',
  '(?:a*){2}b',
]

function language(pattern: string): GbnfLanguage {
  return new GbnfLanguage(guidedGrammar({ kind: 'regex', pattern }))
}

function inJson(pattern: string): GbnfLanguage {
  return new GbnfLanguage(
    guidedGrammar({ kind: 'json-schema', schema: { type: 'string', pattern } }),
  )
}

function refusal(pattern: string): string {
  try {
    guidedGrammar({ kind: 'regex', pattern })
    return 'accepted'
  } catch (error) {
    return error instanceof BatonError ? `${error.code} ${error.message}` : String(error)
  }
}

describe('regular expression to grammar', () => {
  it.each(PATTERNS.filter((pattern) => pattern !== '[]x]?a'))(
    '%j - the same texts as the engine of the language, and no others',
    (pattern) => {
      const expression = new RegExp(`^(?:${pattern})$`, 'u')
      const own = language(pattern)
      const quoted = inJson(pattern)
      const { random } = seededDraw(pattern)
      for (let i = 0; i < 40; i++) {
        const text = own.draw(random)
        expect([text, expression.test(text)]).toEqual([text, true])
        const value: unknown = JSON.parse(quoted.draw(random))
        expect([value, expression.test(String(value))]).toEqual([value, true])
      }
      const letters = fc.constantFrom(...'abcxyz019-_.@ \n"\\/]^é中🦊AB'.match(/./gsu)!)
      fc.assert(
        fc.property(fc.string({ unit: letters, maxLength: 8 }), (text) => {
          expect(own.has(text)).toBe(expression.test(text))
          expect(quoted.has(JSON.stringify(text))).toBe(expression.test(text))
        }),
      )
    },
  )

  it.each([
    ['((?=a)b)*', 'a look-ahead'],
    ['('.repeat(40), 'nested deeper'],
    ['a'.repeat(10_001), 'of more than 10000 characters'],
    ['(?<=a)b', 'a look-behind'],
    ['(?<!a)b', 'a look-behind'],
    ['(a)\\1', 'a back-reference'],
    ['\\bword', 'a boundary'],
    ['\\p{L}', 'Unicode property'],
    ['(?i)a', 'a flag'],
    ['a++', 'a possessive quantifier'],
    ['a^b', 'an anchor in the middle'],
    ['(a$)+b', 'an anchor in the middle'],
    ['a{2001}', 'more than 2000 repetitions'],
    ['[[:alpha:]]', 'a named class'],
    ['\\ud83d', 'half of a surrogate pair'],
  ])('%j - refused by its name', (pattern, name) => {
    expect(refusal(pattern)).toContain('request.unsupported_parameter')
    expect(refusal(pattern)).toContain(name)
  })

  it.each(['(', 'a)', '[a', '*a', 'a**', 'a{3,2}', '[z-a]', '[]', '\\x1'])(
    '%j - is no pattern',
    (pattern) => {
      expect(refusal(pattern)).toContain('request.invalid_argument')
    },
  )
})
