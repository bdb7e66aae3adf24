import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KeyedLists } from './keyed-lists.ts'

describe('KeyedLists', () => {
  it('KeyedLists - agrees with sets after random changes', () => {
    const change = fc.record({ key: fc.integer({ min: -3, max: 3 }), number: fc.nat(20) })
    fc.assert(
      fc.property(fc.array(change, { maxLength: 200, size: 'max' }), (changes) => {
        const lists = new KeyedLists()
        const keys = new Map<number, number>()
        const listed = (key: number): number[] => {
          const numbers: number[] = []
          for (let k = lists.firstOf(key); k >= 0; k = lists.after(k)) numbers.push(k)
          return numbers.sort((a, b) => a - b)
        }
        const expected = (key: number): number[] =>
          [...keys].flatMap(([number, own]) => (own === key ? [number] : [])).sort((a, b) => a - b)
        for (const { key, number } of changes) {
          const own = keys.get(number)
          if (own === undefined) {
            keys.set(number, key)
            lists.add(key, number)
          } else {
            keys.delete(number)
            expect(lists.remove(own, number)).toBe(expected(own).length === 0)
          }
          for (let each = -3; each <= 3; each++) expect(listed(each)).toEqual(expected(each))
        }
      }),
    )
  })
})
