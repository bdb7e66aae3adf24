import { describe, expect, it } from 'vitest'
import { fleet } from '../../../test/router/small-fleet.ts'

/** One worker that completes a request per tenth of a second, and tenants that send more than that. */
describe('tenants under overload', () => {
  interface Tenant {
    readonly tenantId: string
    readonly perTick: number
    readonly tenantWeight?: number
  }

  /** By tenant: number of requests sent, started and refused. */
  function share(tenants: readonly Tenant[], ticks = 300) {
    const model = fleet(1)
    const tenantOf = new Map<string, string>()
    const sent = tenants.map(() => [] as ReturnType<typeof model.send>[])
    let next = 0
    for (let tick = 0; tick < ticks; tick++) {
      tenants.forEach(({ perTick, ...routing }, i) => {
        const due = Math.floor((tick + 1) * perTick) - Math.floor(tick * perTick)
        for (let n = 0; n < due; n++) {
          const one = model.send(routing)
          tenantOf.set(one.sent.requestId, routing.tenantId)
          sent[i]?.push(one)
        }
      })
      if (next < model.plane.calls.length) model.plane.call(next++).finish()
      model.clock.advance(100)
    }
    const served = model.plane.calls.map(({ request }) => tenantOf.get(request.requestId))
    return tenants.map(({ tenantId }, i) => ({
      sent: sent[i]?.length ?? 0,
      served: served.filter((tenant) => tenant === tenantId).length,
      refused: sent[i]?.filter(({ sink }) => sink.errors.length > 0).length ?? 0,
    }))
  }

  it('a tenant within its share - loses nothing to a flooding tenant', () => {
    const [flood, small] = share([
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
    const [loud, quiet] = share([
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
    const [heavy, light] = share([
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
    const got = share(
      weights.map((tenantWeight, i) => ({ tenantId: `t${i}`, perTick: perTick[i]!, tenantWeight })),
      600,
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
    const [only] = share([{ tenantId: 'only', perTick: 10, tenantWeight: 0.01 }])
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
