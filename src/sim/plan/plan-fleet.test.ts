/** The search finds the same fleet as trying all, with far fewer trials, if more workers are never worse. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planFleet } from './plan-fleet.ts'
import type { FleetSize } from './plan-fleet.ts'

const MAX = 24

function cheapest(costs: FleetSize, meets: (size: FleetSize) => boolean): number | null {
  let best: number | null = null
  const look = (size: FleetSize): void => {
    if (!meets(size)) return
    const cost =
      size.aggregated * costs.aggregated + size.prefill * costs.prefill + size.decode * costs.decode
    if (best === null || cost < best) best = cost
  }
  for (let a = 1; a <= MAX; a++) look({ aggregated: a, prefill: 0, decode: 0 })
  for (let prefill = 1; prefill <= MAX; prefill++)
    for (let decode = 1; decode <= MAX; decode++) look({ aggregated: 0, prefill, decode })
  return best
}

describe('planFleet', () => {
  it('finds the cheapest fleet for any monotonic goal', async () => {
    const need = fc.integer({ min: 1, max: 30 })
    const price = fc.integer({ min: 1, max: 5 })
    await fc.assert(
      fc.asyncProperty(
        need,
        need,
        need,
        need,
        price,
        price,
        price,
        async (a, p, d, sum, ca, cp, cd) => {
          const costs = { aggregated: ca, prefill: cp, decode: cd }
          const meets = ({ aggregated, prefill, decode }: FleetSize): boolean =>
            aggregated > 0
              ? aggregated >= a
              : prefill >= Math.ceil(p / 2) && decode >= Math.ceil(d / 2) && prefill + decode >= sum
          const { best, trials } = await planFleet({
            costs,
            kinds: ['aggregated', 'disaggregated'],
            workersMax: MAX,
            meets: (size) => Promise.resolve(meets(size)),
          })
          expect(best?.cost ?? null).toBe(cheapest(costs, meets))
          if (best !== null) expect(meets(best.size)).toBe(true)
          expect(trials.length).toBeLessThan(MAX * 8)
        },
      ),
    )
  })

  it('a cost to beat - only cheaper fleets are found, and dearer aggregated ones are not tried', async () => {
    const options = {
      costs: { aggregated: 2, prefill: 1, decode: 1 },
      kinds: ['aggregated', 'disaggregated'],
      workersMax: MAX,
      meets: ({ aggregated, prefill, decode }: FleetSize): Promise<boolean> =>
        Promise.resolve(aggregated >= 6 || (prefill >= 3 && decode >= 4)),
    } as const
    expect((await planFleet({ ...options, below: 8 })).best?.cost).toBe(7)
    const { best, trials } = await planFleet({ ...options, below: 7 })
    expect(best).toBeNull()
    expect(Math.max(...trials.map(({ size }) => size.aggregated))).toBe(3)
  })

  it('announced trials - contain the next one, and do not change the result', async () => {
    const options = {
      costs: { aggregated: 3, prefill: 1, decode: 1 },
      kinds: ['aggregated', 'disaggregated'],
      workersMax: MAX,
      meets: ({ aggregated, prefill, decode }: FleetSize): Promise<boolean> =>
        Promise.resolve(aggregated >= 13 || (prefill >= 3 && decode >= 7)),
    } as const
    const told: (readonly FleetSize[])[] = []
    const plan = await planFleet(options)
    const ahead = await planFleet({ ...options, lookAhead: 2, next: (sizes) => told.push(sizes) })
    expect(ahead).toEqual(plan)
    expect(told.every(({ length }) => length <= 2)).toBe(true)
    const sizes = plan.trials.map(({ size }) => JSON.stringify(size))
    // While doubling or halving, two trials may follow.
    const known = new Set(told.flat().map((size) => JSON.stringify(size)))
    expect(sizes.filter((size) => !known.has(size)).length).toBeLessThanOrEqual(6)
  })

  it('nothing within the limits - is reported, with what was tried', async () => {
    const plan = await planFleet({
      costs: { aggregated: 1, prefill: 1, decode: 1 },
      kinds: ['aggregated', 'disaggregated'],
      workersMax: 4,
      meets: () => Promise.resolve(false),
    })
    expect(plan.best).toBeNull()
    expect(plan.trials.map(({ size }) => size.aggregated)).toContain(4)
  })
})
