import { describe, expect, it } from 'vitest'
import { LineFit, RankRates } from './rank-rates.ts'

describe('LineFit', () => {
  it('finds the line that the observations lie on', () => {
    const fit = new LineFit()
    for (let x = 0; x < 50; x++) fit.add(x * 100, 7 + 0.25 * x * 100)
    expect(fit.line()?.slope).toBeCloseTo(0.25, 6)
    expect(fit.line()?.intercept).toBeCloseTo(7, 3)
  })

  it('follows a change', () => {
    const fit = new LineFit()
    for (let i = 0; i < 100; i++) fit.add(100 * (i % 10), 100 * (i % 10))
    for (let i = 0; i < 200; i++) fit.add(100 * (i % 10), 400 * (i % 10))
    expect(fit.line()?.slope).toBeCloseTo(4, 1)
  })

  it.each([
    ['nothing', [], null],
    ['one', [[100, 20]], { slope: 0.2, intercept: 0 }],
    [
      'always the same',
      [
        [100, 20],
        [100, 30],
      ],
      { slope: 0.25, intercept: 0 },
    ],
    ['no prompt at all', [[0, 20]], { slope: 0, intercept: 20 }],
    [
      'falling',
      [
        [100, 30],
        [200, 10],
      ],
      { slope: 0, intercept: 20 },
    ],
  ] as const)('%s - neither slope nor intercept is below 0', (_, observations, expected) => {
    const fit = new LineFit()
    for (const [x, y] of observations) fit.add(x, y)
    const line = fit.line()
    if (expected === null) expect(line).toBeNull()
    else {
      expect(line?.slope).toBeCloseTo(expected.slope, 2)
      expect(line?.intercept).toBeCloseTo(expected.intercept, 0)
    }
  })
})

describe('RankRates', () => {
  const observe = (rates: RankRates, slot: number, perToken: number, times = 20): void => {
    for (let i = 1; i <= times; i++) rates.firstToken(slot, 100 * i, 100 * i * perToken)
  }

  it('each rank has its own pace, a new one that of the pool, the next in its slot too', () => {
    const rates = new RankRates()
    for (const slot of [0, 1]) rates.join(slot)
    observe(rates, 0, 1)
    observe(rates, 1, 4)
    expect([rates.perToken[0], rates.perToken[1]].map((rate) => rate?.toFixed(1))).toEqual([
      '1.0',
      '4.0',
    ])
    rates.join(20)
    expect(rates.perToken[20]).toBeGreaterThan(1)
    expect(rates.perToken[20]).toBeLessThan(4.1)
    rates.join(1)
    expect(rates.hasOwn(1)).toBe(false)
    expect(rates.perToken[1]).toBe(rates.perToken[20])
  })

  it('steps, outputs, reuse - as they were', () => {
    const rates = new RankRates()
    rates.join(0)
    for (let i = 0; i < 200; i++) rates.ended(0, i % 8, 10 + 2 * (i % 8), 40)
    expect(rates.step[0]).toBeCloseTo(10, 3)
    expect(rates.perRequest[0]).toBeCloseTo(2, 3)
    expect(rates.outputTokens).toBeCloseTo(40, 0)
    for (let i = 0; i < 20; i++) rates.placed(100, 75)
    expect(rates.reuseShare).toBeCloseTo(0.75, 6)
  })

  it('the error of what it predicts - falls as it learns', () => {
    const rates = new RankRates()
    rates.join(0)
    expect(rates.ttftError).toBeNull()
    observe(rates, 0, 3, 5)
    const early = rates.ttftError ?? 0
    observe(rates, 0, 3, 200)
    expect(rates.ttftError).toBeLessThan(early / 10)
  })
})
