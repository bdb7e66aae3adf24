import { describe, expect, it } from 'vitest'
import { parseWorkerId, workerIdOf } from './worker-id.ts'

const MAX_U64 = 18446744073709551615n

describe('parseWorkerId', () => {
  it.each([
    ['0', '0'],
    ['7', '7'],
    ['007', '7'],
    ['9007199254740993', '9007199254740993'],
    [`${MAX_U64 - 1n}`, `${MAX_U64 - 1n}`],
    [`${MAX_U64}`, `${MAX_U64}`],
  ])('%s - is %s, no digit lost', (text, id) => {
    expect(parseWorkerId(text)).toBe(id)
  })

  it.each([
    `${MAX_U64 + 1n}`,
    '99999999999999999999',
    '100000000000000000000',
    '-1',
    '+1',
    '1.0',
    '1e3',
    '0x10',
    ' 1',
    '1 ',
    '1\n',
    '١',
    '',
    'a',
  ])('%j - is no id', (text) => {
    expect(parseWorkerId(text)).toBeNull()
  })
})

describe('workerIdOf', () => {
  it('a number or bigint in range - becomes its decimal text', () => {
    expect([workerIdOf(0), workerIdOf(42), workerIdOf(MAX_U64)]).toEqual(['0', '42', `${MAX_U64}`])
  })

  it.each([-1, 1.5, NaN, Infinity, 2 ** 70, -1n, MAX_U64 + 1n])('%s - is refused', (value) => {
    expect(() => workerIdOf(value)).toThrow(RangeError)
  })
})
