import { describe, expect, it } from 'vitest'

import { HALF_LIFE_MS, TransferRates } from './transfer-rates.ts'

function measured(rates = new TransferRates(), count = 40, msPerToken = 0.05) {
  for (let i = 0; i < count; i++) {
    const tokens = 500 * (1 + (i % 8))
    rates.arrived(tokens, 30 + msPerToken * tokens, i)
  }
  return rates
}

describe('TransferRates', () => {
  it('nothing measured - what is assumed', () => {
    expect(new TransferRates().predictMs(1000, 123, 0)).toBe(123)
  })

  it('learned - a start and a rate, also for lengths that were not seen', () => {
    const rates = measured()
    expect(rates.predictMs(10_000, 1, 40)).toBeCloseTo(530, -1)
    expect(rates.predictMs(0, 1, 40)).toBeCloseTo(30, -1)
  })

  it('no transfer for a while - half of it is what was assumed, then nearly all', () => {
    const rates = measured()
    expect(rates.predictMs(10_000, 1, 39 + HALF_LIFE_MS)).toBeCloseTo(265, -1)
    expect(rates.predictMs(10_000, 1, 39 + 20 * HALF_LIFE_MS)).toBeCloseTo(1, 0)
  })

  it('one that hangs - moves the rate by a bounded step; a clock that steps back is no negative time', () => {
    const rates = measured()
    rates.arrived(1000, 1e9, 40)
    expect(rates.predictMs(1000, 1, 40)).toBeLessThan(200)
    rates.arrived(1000, -5, 41)
    expect(rates.predictMs(1000, 1, 41)).toBeGreaterThanOrEqual(0)
    expect(measured(rates, 100).predictMs(1000, 1, 99)).toBeCloseTo(80, -1)
  })
})
