import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { seededDraw } from '../../../test/text/seeded-draw.ts'
import { guidedGrammar } from './guided-grammar.ts'

type Bounds = Readonly<Record<string, number>>

function language(type: string, bounds: Bounds): GbnfLanguage | null {
  try {
    return new GbnfLanguage(guidedGrammar({ kind: 'json-schema', schema: { type, ...bounds } }))
  } catch (error) {
    expect(String(error)).toMatch(/allow no number|more than 15 digits/)
    return null
  }
}

function holds(value: number, bounds: Bounds): boolean {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = bounds
  return (
    value >= (minimum ?? -Infinity) &&
    value <= (maximum ?? Infinity) &&
    value > (exclusiveMinimum ?? -Infinity) &&
    value < (exclusiveMaximum ?? Infinity)
  )
}

const keyword = fc.constantFrom('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum')

describe('numbers of a schema to grammar', () => {
  it('integers - exactly those within the bounds', () => {
    const bound = fc.oneof(fc.integer({ min: -50, max: 50 }), fc.integer({ min: -1e6, max: 1e6 }))
    const bounds = fc.dictionary(keyword, bound, { maxKeys: 3 })
    fc.assert(
      fc.property(bounds, fc.array(bound, { minLength: 3, maxLength: 10 }), (limits, values) => {
        const own = language('integer', limits)
        for (const value of [...values, ...Object.values(limits)]) {
          for (const near of [value - 1, value, value + 1]) {
            expect([near, limits, own?.has(String(near)) ?? false]).toEqual([
              near,
              limits,
              holds(near, limits),
            ])
          }
        }
      }),
    )
  })

  it('numbers - exactly those within the bounds, to the last digit', () => {
    const decimal = fc
      .tuple(fc.integer({ min: -3000, max: 3000 }), fc.integer({ min: 0, max: 3 }))
      .map(([digits, places]) => Number((digits / 10 ** places).toFixed(places)))
    const bounds = fc.dictionary(keyword, decimal, { maxKeys: 3 })
    fc.assert(
      fc.property(bounds, fc.array(decimal, { minLength: 3, maxLength: 8 }), (limits, values) => {
        const own = language('number', limits)
        for (const value of [...values, ...Object.values(limits)]) {
          for (const near of [value, value - 0.0004, value + 0.0004]) {
            const text = near.toFixed(4).replace(/\.?0+$/, '')
            if (text === '-0') continue
            expect([text, limits, own?.has(text) ?? false]).toEqual([
              text,
              limits,
              holds(Number(text), limits),
            ])
          }
        }
      }),
    )
  })

  it.each([
    { exclusiveMinimum: 0, exclusiveMaximum: 1 },
    { minimum: 0.1, maximum: 0.3 },
    { exclusiveMinimum: 99_999_999_999_999, exclusiveMaximum: 100_000_000_000_001 },
    { maximum: 1e300 },
    { minimum: -1e-9, exclusiveMaximum: 1e-9 },
    { minimum: -0.75 },
  ])('%o - what is drawn is within, as the double that a reader makes of it', (bounds) => {
    const own = language('number', bounds as Bounds)
    const { random } = seededDraw(JSON.stringify(bounds))
    for (let i = 0; i < 300; i++) {
      const text = own?.draw(random) ?? ''
      expect([text, holds(Number(text), bounds as Bounds)]).toEqual([text, true])
    }
  })

  it('multiples - are listed, or expressed by trailing zeros or decimals', () => {
    const sevens = language('integer', { minimum: -20, maximum: 20, multipleOf: 7 })
    expect(['-14', '-7', '0', '7', '14'].every((text) => sevens?.has(text))).toBe(true)
    expect(['-21', '1', '21', '8'].some((text) => sevens?.has(text))).toBe(false)
    const hundreds = language('integer', { minimum: -250, multipleOf: 100 })
    expect(['-200', '0', '100', '123400'].every((text) => hundreds?.has(text))).toBe(true)
    expect(['-300', '00', '50', '150'].some((text) => hundreds?.has(text))).toBe(false)
    const cents = language('number', { minimum: 0, multipleOf: 0.01 })
    expect(['0', '1.5', '19.99'].every((text) => cents?.has(text))).toBe(true)
    expect(['-1', '0.001', '1e2'].some((text) => cents?.has(text))).toBe(false)
  })
})
