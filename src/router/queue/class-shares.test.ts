import { describe, expect, it } from 'vitest'
import { fleet } from '../../../test/router/small-fleet.ts'
import { ClassShares } from './class-shares.ts'

const rank = (strictPriority: number, tenant = '', tenantWeight = 1) => ({
  strictPriority,
  tenant,
  tenantWeight,
})

/** Three seconds in which so many arrive of each class and so many are sent. */
function after(
  arrivals: readonly (readonly [ReturnType<typeof rank>, number])[],
  gone: number,
): readonly boolean[] {
  const shares = new ClassShares()
  for (const [each, count] of arrivals) {
    for (let i = 0; i < count; i++) shares.arrived(each, 3000)
  }
  for (let i = 0; i < gone; i++) shares.gone(5000)
  return arrivals.map(([each]) => shares.isWithinShare(each, 6000))
}

describe('ClassShares', () => {
  it('one class - the overload is its own', () => {
    expect(after([[rank(0), 10]], 30)).toEqual([false])
  })

  it('priorities - those that could be served, higher ones first', () => {
    const arrivals = [
      [rank(2), 10],
      [rank(1), 15],
      [rank(0), 6],
    ] as const
    expect(after(arrivals, 30)).toEqual([true, true, false])
    expect(after(arrivals, 20)).toEqual([true, false, false])
  })

  it('tenants - those that do not exceed their share, by weight', () => {
    const arrivals = [
      [rank(0, 'flood'), 100],
      [rank(0, 'small'), 12],
      [rank(0, 'heavy', 2), 20],
    ] as const
    expect(after(arrivals, 40)).toEqual([false, false, true])
    expect(after(arrivals, 48)).toEqual([false, true, true])
  })

  it('forgets a window after the next one', () => {
    const shares = new ClassShares()
    shares.arrived(rank(1), 0)
    shares.arrived(rank(0), 0)
    for (let i = 0; i < 5; i++) shares.gone(0)
    expect(shares.isWithinShare(rank(1), 3000)).toBe(true)
    expect(shares.isWithinShare(rank(1), 9000)).toBe(false)
  })
})

describe('bursts of a class under overload', () => {
  // One worker completes a request per tenth of a second; the line has room for three.
  it.each([
    ['a higher strict priority', { strictPriority: 1 }, {}],
    ['another tenant', { tenantId: 'small' }, { tenantId: 'flood' }],
  ])('%s that arrives less than the workers complete - is queued', (_, few, many) => {
    const model = fleet(1)
    const bursts: ReturnType<typeof model.send>[] = []
    let next = 0
    for (let tick = 0; tick < 300; tick++) {
      for (let i = 0; i < 10; i++) model.send(many)
      // Until then the overload and the classes are not known.
      if (tick >= 100 && tick % 20 === 0) for (let i = 0; i < 6; i++) bursts.push(model.send(few))
      else if (tick < 100 && tick % 4 === 0) model.send(few)
      if (next < model.plane.calls.length) model.plane.call(next++).finish()
      model.clock.advance(100)
    }
    expect(bursts.map(({ sink }) => sink.errors.length)).toEqual(bursts.map(() => 0))
  })
})
