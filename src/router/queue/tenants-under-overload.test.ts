import { describe, expect, it } from 'vitest'
import { flooded } from '../../../test/router/flooded-fleet.ts'
import { fleet } from '../../../test/router/small-fleet.ts'

describe('tenants under overload', () => {
  it('a tenant within its share - loses nothing to a flooding tenant', () => {
    const [flood, small] = flooded([
      { tenantId: 'flood', perTick: 10 },
      { tenantId: 'small', perTick: 0.4 },
    ])
    expect(small?.sent).toBe(120)
    expect(small?.served).toBeGreaterThanOrEqual(114)
    expect(small?.refused).toBeLessThanOrEqual(3)
    // The flooding tenant gets the rest: no capacity is idle.
    expect((flood?.served ?? 0) + (small?.served ?? 0)).toBeGreaterThan(290)
  })

  it('two flooding tenants, one with twenty times as much - half each', () => {
    const [loud, quiet] = flooded([
      { tenantId: 'loud', perTick: 40 },
      { tenantId: 'quiet', perTick: 2 },
    ])
    const part = (quiet?.served ?? 0) / ((quiet?.served ?? 0) + (loud?.served ?? 0))
    expect(part).toBeGreaterThan(0.45)
    expect(part).toBeLessThan(0.55)
  })

  it.each([
    [3, 0.75],
    [1, 0.5],
    [0.25, 0.2],
  ])('weights of %d to 1 - their parts', (tenantWeight, expected) => {
    const [heavy, light] = flooded([
      { tenantId: 'heavy', perTick: 10, tenantWeight },
      { tenantId: 'light', perTick: 10 },
    ])
    const part = (heavy?.served ?? 0) / ((heavy?.served ?? 0) + (light?.served ?? 0))
    expect(part).toBeGreaterThan(expected - 0.06)
    expect(part).toBeLessThan(expected + 0.06)
  })

  it.each([
    { weights: [2, 5, 1], perTick: [10, 10, 10] },
    { weights: [1, 1, 1, 1, 7], perTick: [9, 2, 2, 2, 2] },
    { weights: [1, 2, 3, 4, 5, 6, 7], perTick: [5, 5, 5, 5, 5, 5, 5] },
    { weights: [1, 3], perTick: [4, 40] },
    { weights: [1, 10], perTick: [3, 30] },
  ])('$weights to flooding tenants - each gets its part, also the last one', (scene) => {
    const { weights, perTick } = scene
    const got = flooded(
      weights.map((tenantWeight, i) => ({ tenantId: `t${i}`, perTick: perTick[i]!, tenantWeight })),
      { ticks: 600 },
    )
    const [all, sum] = [
      got.reduce((total, { served }) => total + served, 0),
      weights.reduce((total, weight) => total + weight, 0),
    ]
    for (const [i, { served }] of got.entries()) {
      const part = (served * sum) / (all * weights[i]!)
      expect([i, part > 0.75 && part < 1.3, part]).toEqual([i, true, part])
    }
  })

  it('a single tenant - gets everything, whatever its weight', () => {
    const [only] = flooded([{ tenantId: 'only', perTick: 10, tenantWeight: 0.01 }])
    expect(only?.served).toBeGreaterThan(290)
  })

  it('a full queue - the tenant with the most is dropped first, but no request of a higher class', () => {
    const { send, pool } = fleet(1, { maxQueuedRequests: 4 })
    for (let i = 0; i < 3; i++) send({ tenantId: 'many' })
    const many = Array.from({ length: 4 }, () => send({ tenantId: 'many' }))
    const few = send({ tenantId: 'few' })
    expect([few.sink.errors.length, many[3]?.sink.errors.length]).toEqual([0, 1])
    const more = send({ tenantId: 'many' })
    expect(more.sink.errors).toHaveLength(1)
    const urgent = send({ tenantId: 'many', strictPriority: 1 })
    expect([urgent.sink.errors.length, pool().queuedRequests]).toEqual([0, 4])
    const others = [0, 1, 2].map(() => send({ tenantId: 'few' }))
    expect(others.map(({ sink }) => sink.errors.length)).toEqual([0, 1, 1])
    expect(urgent.sink.errors).toEqual([])
  })
})
