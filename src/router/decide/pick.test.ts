import { describe, expect, it } from 'vitest'

import { seededRandom } from '../../base/index.ts'
import { pickAtTemperature, pickLowest, softmaxIndex } from './pick.ts'

const tally = (runs: number, pick: () => number, size: number): number[] => {
  const counts = Array.from({ length: size }, () => 0)
  for (let i = 0; i < runs; i++) {
    const at = pick()
    counts[at] = (counts[at] ?? 0) + 1
  }
  return counts
}

describe('pick', () => {
  it('lowest - ties are broken uniformly', () => {
    const random = seededRandom(11)
    const costs = Float64Array.from([1, 0, 2, 0, 0])
    const counts = tally(3000, () => pickLowest(costs, 5, random), 5)
    expect([counts[0], counts[2]]).toEqual([0, 0])
    for (const i of [1, 3, 4]) expect(counts[i]).toBeGreaterThan(900)
  })

  it('count - later candidates are ignored', () => {
    expect(pickLowest(Float64Array.from([5, 3, 0]), 2, seededRandom(1))).toBe(1)
  })

  it('softmax - the probabilities are proportional to exp(-normalised cost / temperature)', () => {
    const random = seededRandom(12)
    const costs = Float64Array.from([0, 1, 2])
    const counts = tally(20_000, () => pickAtTemperature(0.5)(costs, 3, random), 3)
    const weights = [1, Math.exp(-1), Math.exp(-2)]
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    counts.forEach((count, i) =>
      expect(count / 20_000).toBeCloseTo((weights[i] as number) / total, 1),
    )
  })

  it('softmax - equal costs are uniform, a huge range does not overflow, the end is reached', () => {
    expect(softmaxIndex(Float64Array.from([3, 3]), 2, 1, 0.6)).toBe(1)
    expect(softmaxIndex(Float64Array.from([-1e308, 1e308]), 2, 1, 0)).toBe(0)
    expect(softmaxIndex(Float64Array.from([0, 1]), 2, 1, 0.9999999)).toBe(1)
  })

  it('temperature 0 - picks the lowest cost', () => {
    expect(pickAtTemperature(0)).toBe(pickLowest)
  })
})
