import { describe, expect, it } from 'vitest'
import { shareMargin } from './share-margin.ts'

const run = (share: number, parts: number[] = [share, share]) => ({ requests: 1000, share, parts })

describe('shareMargin', () => {
  it('no failure - up to three in as many requests may remain unseen', () => {
    expect(shareMargin([run(1)], false)).toBeCloseTo(0.003, 12)
    expect(shareMargin([run(1), run(1), run(1)], true)).toBeCloseTo(0.001, 12)
    // Repeating the same requests gives no further evidence.
    expect(shareMargin([run(1), run(1), run(1)], false)).toBeCloseTo(0.003, 12)
  })

  it('parts that differ - widen it, also when the seeds agree', () => {
    const uneven = run(0.9, [1, 0.8, 1, 0.8])
    const alone = shareMargin([uneven], false)
    expect(alone).toBeGreaterThan(0.1)
    expect(shareMargin([uneven, uneven], false)).toBeCloseTo(alone, 12)
    expect(shareMargin([uneven, uneven], true)).toBeCloseTo(alone / Math.SQRT2, 12)
  })

  it("seeds that differ - by Student's t; never more than 1", () => {
    expect(shareMargin([run(0.9), run(0.92), run(0.94)], true)).toBeCloseTo(0.0497, 3)
    expect(shareMargin([run(0), run(1)], true)).toBe(1)
    expect(shareMargin([], true)).toBe(1)
  })
})
