import { describe, expect, it } from 'vitest'
import { objectInJson } from './json-in-text.ts'

const LONG = `{"a":[${'"x",'.repeat(300)}1]}`
const never = (): never => {
  throw new Error('measured')
}

describe('the object in a text of JSON', () => {
  it.each(['{}', ' \r\n\t{"a":1}', '{"a":12345678901234567890}'])(
    'a short text (%s) - is not measured',
    (text) => {
      expect(objectInJson(text, never)).not.toBeNull()
    },
  )

  it('an integer keeps its digits', () => {
    expect(objectInJson('{"a":12345678901234567890}', never)).toEqual({ a: 12345678901234567890n })
  })

  it('a long text - is measured first, and not parsed if it is too large', () => {
    expect(objectInJson(LONG, ({ depth }) => depth === 2)).toHaveProperty('a[300]', 1)
    expect(objectInJson(LONG, () => false)).toBeNull()
    expect(() => objectInJson(LONG, never)).toThrow('measured')
  })

  it.each([
    ['nothing', ''],
    ['a sentence', 'so'],
    ['a list', `[${LONG}]`],
    ['another value', '1'],
    ['a brace only', '{'],
    ['a long text that is not closed', LONG.slice(0, -1)],
    ['a sentence in braces', '{so}'],
  ])('%s - is none', (_, text) => {
    expect(objectInJson(text, never)).toBeNull()
  })
})
