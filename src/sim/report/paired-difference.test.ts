/** Differences over the same seeds, with their confidence. */
import { describe, expect, it } from 'vitest'
import { meanWithMargin, pairedDifference } from './paired-difference.ts'

describe('pairedDifference', () => {
  it('a constant shift on every seed - is certain', () => {
    const difference = pairedDifference([10, 20, 30], [11, 21, 31])
    expect(difference).toMatchObject({ pairs: 3, mean: 1, margin: 0 })
    expect(difference.relative).toBeCloseTo(0.05)
  })

  it("the margin is that of Student's t: 1, 2, 3 has a mean of 2 ± 2.484", () => {
    expect(meanWithMargin([1, 2, 3]).mean).toBe(2)
    expect(meanWithMargin([1, 2, 3]).margin).toBeCloseTo(2.484, 2)
    expect(meanWithMargin([5]).margin).toBe(Infinity)
    expect(meanWithMargin([6.7, 6.7, 6.7])).toEqual({ mean: 6.7, margin: 0 })
    expect(pairedDifference([0, 0], [1, 1]).relative).toBeNaN()
  })

  it('many seeds - the quantile of t approaches that of the normal distribution steadily', () => {
    const quantile = (count: number): number => {
      const values = Array.from({ length: count }, (_, i) => (i % 2 === 0 ? 1 : -1))
      const { margin } = meanWithMargin(values)
      return margin / Math.sqrt(1 / (count - 1))
    }
    expect(quantile(42)).toBeCloseTo(2.0195, 3)
    expect(quantile(102)).toBeCloseTo(1.9837, 3)
    expect(quantile(30)).toBeGreaterThan(quantile(32))
  })
})
