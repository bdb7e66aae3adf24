import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../base/index.ts'
import { FadingFit } from '../rates/fading-fit.ts'
import { RankRates } from './rank-rates.ts'

describe('FadingFit', () => {
  const fitted = (rows: readonly (readonly [number, number])[]) => {
    const fit = new FadingFit([0, 0], 0.97, 1)
    for (const [x, y] of rows) fit.add([1, x], y)
    return fit.coefficients
  }

  it('finds the line through the observations', () => {
    const [intercept, slope] = fitted(Array.from({ length: 50 }, (_, x) => [x, 7 + 2 * x]))
    expect(intercept).toBeCloseTo(7, 1)
    expect(slope).toBeCloseTo(2, 2)
  })

  it('follows a change', () => {
    const pace = (factor: number, count: number) =>
      Array.from({ length: count }, (_, i) => [1 + (i % 10), factor * (1 + (i % 10))] as const)
    const [, slope] = fitted([...pace(1, 100), ...pace(4, 200)])
    expect(slope).toBeCloseTo(4, 0)
  })

  it('neither slope nor intercept is below 0', () => {
    const [intercept, slope] = fitted([
      [1, 30],
      [2, 10],
    ])
    expect(slope).toBe(0)
    expect(intercept).toBeGreaterThan(10)
    expect(fitted([[0, 20]])[0]).toBeCloseTo(20, 1)
  })

  it('small observations count as much as large ones', () => {
    const fit = new FadingFit([0, 0], 1, 1)
    for (let i = 0; i < 50; i++) {
      fit.add([1, 1], 12)
      // Far away a line is wrong by a third; near the origin it holds.
      fit.add([1, 1000], i % 2 === 0 ? 1500 : 2500)
    }
    expect(fit.predict([1, 1])).toBeCloseTo(12, 0)
  })
})

describe('RankRates', () => {
  it('first tokens without anything to compute or wait for - rates stay finite', () => {
    const rates = new RankRates()
    rates.join(0)
    // All of it is explained by steps: nothing is left for the prompt itself.
    for (let i = 0; i < 400; i++) rates.firstToken(0, 0, 10 + (i % 5), 0, 10 + (i % 5))
    rates.firstToken(0, 0, 0, 0, 0)
    expect(Number.isFinite(rates.predictedTtftMs(0, 100, 10, 10))).toBe(true)
  })

  it('steps that hardly vary - are not attributed to the fixed prefill cost', () => {
    const rates = new RankRates()
    rates.join(0)
    for (let i = 0; i < 600; i++) {
      const tokens = 80 + ((i * 37) % 40)
      const stepMs = 5.7 + 0.01 * (i % 3)
      const noise = ((i * 7919) % 17) / 17 - 0.5
      rates.firstToken(0, tokens, 17 + 0.015 * tokens + stepMs * (1 + noise), 0, stepMs)
      expect(rates.stepShare).toBeGreaterThan(0.6)
      expect(rates.stepShare).toBeLessThan(1.4)
    }
    expect(rates.prefillMs).toBeGreaterThan(13)
    expect(rates.prefillMs).toBeLessThan(21)
  })

  /** A rank that takes `fixed` and so much for each token, whatever is asked. */
  const observe = (rates: RankRates, slot: number, perToken: number, times = 40): void => {
    for (let i = 1; i <= times; i++) {
      const tokens = 100 * (1 + (i % 20))
      rates.firstToken(slot, tokens, 5 + tokens * perToken)
    }
  }

  it('each rank has its own speed, a new one that of the pool, also when it reuses a slot', () => {
    const rates = new RankRates()
    for (const slot of [0, 1]) rates.join(slot)
    for (let round = 0; round < 8; round++) {
      observe(rates, 0, 1, 20)
      observe(rates, 1, 4, 20)
    }
    // Part of a difference may be chance.
    expect(rates.ttftMs(0, 1000) / 1005).toBeGreaterThan(0.8)
    expect(rates.ttftMs(0, 1000) / 1005).toBeLessThan(1.2)
    expect(rates.ttftMs(1, 1000) / 4005).toBeGreaterThan(0.8)
    expect(rates.ttftMs(1, 1000) / 4005).toBeLessThan(1.2)
    rates.join(20)
    expect(rates.perTokenMs(20)).toBeGreaterThan(1)
    expect(rates.perTokenMs(20)).toBeLessThan(4)
    rates.join(1)
    expect(rates.seen(1)).toBe(0)
    expect(rates.perTokenMs(1)).toBe(rates.perTokenMs(20))
  })

  it('a rank that is four times as slow - is known to be clearly slower after its first prompt', () => {
    const rates = new RankRates()
    for (let slot = 0; slot < 8; slot++) rates.join(slot)
    for (let round = 0; round < 8; round++) {
      for (let slot = 0; slot < 7; slot++) observe(rates, slot, 1, 20)
    }
    expect([rates.untried.count, rates.untried.has(7)]).toEqual([1, true])
    observe(rates, 7, 4, 20)
    expect(rates.untried.count).toBe(0)
    expect(rates.ttftMs(7, 1000)).toBeGreaterThan(1.8 * rates.ttftMs(0, 1000))
  })

  it('ranks that differ only by noise - get the same speed', () => {
    const rates = new RankRates()
    for (let slot = 0; slot < 4; slot++) rates.join(slot)
    for (let i = 0; i < 400; i++) {
      const tokens = 100 * (1 + (i % 7))
      rates.firstToken(i % 4, tokens, (10 + tokens) * (0.9 + 0.05 * ((i * 13) % 5)))
    }
    expect(Array.from(rates.prefillFactor.slice(0, 4))).toEqual([1, 1, 1, 1])
  })

  it('a slow rank that is no longer used - is assumed to be average again', () => {
    const rates = new RankRates()
    for (const slot of [0, 1]) rates.join(slot)
    observe(rates, 0, 1)
    observe(rates, 1, 8)
    const slow = rates.prefillFactor[1] ?? 0
    expect(slow).toBeGreaterThan(2)
    observe(rates, 0, 1, 2000)
    expect(rates.prefillFactor[1]).toBeLessThan(1.5)
  })

  it('waiting and decode steps - are separated from prefill time, with shares that stay near those of an engine', () => {
    const rates = new RankRates()
    rates.join(0)
    for (let i = 0; i < 300; i++) {
      const [tokens, waitMs, stepMs] = [100 * (1 + (i % 7)), 10 * (i % 5), i % 3]
      rates.firstToken(0, tokens, 20 + 0.1 * tokens + 0.8 * waitMs + 1.1 * stepMs, waitMs, stepMs)
    }
    expect(rates.msPerToken).toBeCloseTo(0.1, 2)
    expect(rates.waitShare).toBeGreaterThan(0.8)
    expect(rates.waitShare).toBeLessThan(1)
    expect(Math.abs(rates.predictedTtftMs(0, 500, 20, 2) / (20 + 50 + 16 + 2.2) - 1)).toBeLessThan(
      0.03,
    )
  })

  it('steps, outputs, reuse - are learned', () => {
    const rates = new RankRates()
    rates.join(0)
    for (let i = 0; i < 300; i++)
      rates.ended(0, i % 8, 10 + 2 * (i % 8) + 0.001 * (i % 11) * 1000, 40, (i % 11) * 1000)
    expect(rates.stepMs).toBeGreaterThan(9)
    expect(rates.stepMs).toBeLessThan(11)
    expect(rates.stepMsPerRequest).toBeCloseTo(2, 0)
    expect(rates.stepMsPerContextToken).toBeCloseTo(0.001, 4)
    expect(rates.outputTokens).toBeCloseTo(40, 0)
    for (let i = 0; i < 20; i++) rates.placed(100, 75)
    expect(rates.reuseShare).toBeCloseTo(0.75, 6)
  })

  it('the wait for a place in a full batch - until 8 answers have ended as if all of it had begun together', () => {
    const rates = new RankRates()
    rates.join(0)
    for (let i = 0; i < 7; i++) rates.ended(0, 8, 10, 40, 250)
    const apart = (): number =>
      rates.placeMs(0, 1, 8, 250) / (rates.outputTokens * rates.stepMsAt(0, 8, 250))
    expect(apart()).toBeCloseTo(1, 9)
    rates.ended(0, 8, 10, 40, 250)
    expect(apart()).toBeCloseTo(1 / 8, 9)
  })

  it('the first measured step - shows the length of steps, not what context tokens add', () => {
    const rates = new RankRates()
    rates.join(0)
    rates.ended(0, 2, 17, 40, 250)
    expect(rates.stepMsAt(0, 2, 250)).toBeCloseTo(17, 0)
    expect(rates.stepMsAt(0, 2, 60_000)).toBeLessThan(25)
  })

  it('steps between prompts of others - say little, and nothing at all if there are only a few', () => {
    const rates = new RankRates()
    rates.join(0)
    rates.ended(0, 2, 700, 2, 250, 0.7)
    rates.ended(0, 2, 700, 40, 250, 0.05)
    expect(rates.stepMsAt(0, 2, 250)).toBeLessThan(11)
    rates.ended(0, 2, 20, 40, 250)
    expect(rates.stepMsAt(0, 2, 250)).toBeGreaterThan(15)
  })

  it('prediction error - falls while learning; if large, predictions are not used until it is small again', () => {
    const rates = new RankRates()
    rates.join(0)
    expect(rates.ttftError).toBeNull()
    observe(rates, 0, 3, 5)
    const early = rates.ttftError ?? 0
    observe(rates, 0, 3, 200)
    expect(rates.ttftError).toBeLessThan(early / 5)
    expect(rates.isLost).toBe(false)
    // First tokens that have nothing to do with anything.
    for (let i = 0; i < 200; i++) rates.firstToken(0, 1000, i % 2 === 0 ? 5 : 5000)
    expect(rates.isLost).toBe(true)
    observe(rates, 0, 3, 600)
    expect(rates.isLost).toBe(false)
  })

  it('an opening burst - its guessed waits do not show that predictions are off; those of later requests do', () => {
    const rates = new RankRates()
    rates.join(0)
    // All are sent before the first of them is answered, so that their predictions are guesses.
    for (let i = 0; i < 200; i++) rates.firstToken(0, 1000, i % 2 === 0 ? 5 : 5000, 0, 0, 0)
    expect([rates.isLost, (rates.ttftError ?? 0) > 1]).toEqual([false, true])
    for (let i = 0; i < 60; i++) rates.firstToken(0, 1000, i % 2 === 0 ? 5 : 5000, 0, 0, 9000)
    expect(rates.isLost).toBe(false)
    for (let i = 0; i < 10; i++) rates.firstToken(0, 1000, i % 2 === 0 ? 5 : 5000, 0, 0, 9000)
    expect(rates.isLost).toBe(true)
  })

  it('waits that nothing predicts - predictions are used while they are much better than the average time', () => {
    const rates = new RankRates()
    rates.join(0)
    const random = seededRandom(3)
    let worst = 0
    for (let i = 0; i < 400; i++) {
      const isCached = i % 2 === 0
      const waited = 6 ** (2 * random.next() - 1)
      rates.firstToken(0, isCached ? 50 : 8000, (isCached ? 8 : 800) * waited)
      worst = Math.max(worst, rates.ttftError ?? 0)
      expect(rates.isLost).toBe(false)
    }
    expect(worst).toBeGreaterThan(1)
  })

  it('times that grow faster than they are learned - predictions are not used, although each is off by less than the measured time', () => {
    const rates = new RankRates()
    rates.join(0)
    observe(rates, 0, 3, 100)
    expect([rates.isLost, (rates.ttftError ?? 1) < 0.1]).toEqual([false, true])
    for (let i = 0; i < 60; i++) rates.firstToken(0, 1000, 3005 * 1.2 ** i)
    expect(rates.isLost).toBe(true)
  })
})
