import { describe, expect, it } from 'vitest'
import { groupsOf } from './lab-fleet.ts'
import { planVariants } from './plan-kinds.ts'

const said = [
  'agg:1:cost=1',
  'agg:9: speed=2, cost = 1.8',
  'prefill:1:cost=2,startup=3',
  'decode:1',
]

describe('kinds of workers of a plan', () => {
  it('cost= of a group - wherever it stands; other groups have the cost of their role', () => {
    const variants = planVariants(groupsOf(said, {}), { workers: said, costs: 'decode=1.5' })
    const costs = variants.map((variant) =>
      Object.entries(variant).map(([role, { cost, group }]) => [role, cost, group.name]),
    )
    expect(costs).toEqual([
      [['aggregated', 1, undefined]],
      [['aggregated', 1.8, ' (speed=2)']],
      [
        ['prefill', 2, ' (startup=3)'],
        ['decode', 1.5, undefined],
      ],
    ])
  })

  it('a cost that is no number - is refused by name', () => {
    for (const cost of ['cost=', 'cost=x', 'cost=-1']) {
      expect(() => groupsOf([`agg:1:${cost}`], {})).toThrow(/--workers/)
    }
  })

  it('without --workers - one kind of worker for every role', () => {
    const variants = planVariants(groupsOf(['agg:4'], {}), { costs: 'aggregated=3' })
    expect(variants).toMatchObject([
      { aggregated: { cost: 3 } },
      { prefill: { cost: 1 }, decode: { cost: 1 } },
    ])
  })
})
