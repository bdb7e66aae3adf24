import { describe, expect, it } from 'vitest'
import { ANYWHERE } from '../ranks/rank-group.ts'
import type { RankGroup } from '../ranks/rank-group.ts'
import { GroupLoads } from './group-loads.ts'

const groupOf = (...slots: number[]): RankGroup => ({ key: `:${slots.join()}`, slots })

describe('GroupLoads', () => {
  it('what more restricted requests take of a rank - not those of the group itself or of wider ones', () => {
    const loads = new GroupLoads()
    loads.add(ANYWHERE, 5)
    loads.add(groupOf(1, 2), 4)
    loads.add(groupOf(2, 3), 2)
    loads.add(groupOf(2), 1)
    const on = (slot: number, group: RankGroup) => loads.on(slot, loads.around(group))
    expect([1, 2, 3, 4].map((slot) => on(slot, ANYWHERE))).toEqual([2, 4, 1, 0])
    expect([1, 2].map((slot) => on(slot, groupOf(1, 2)))).toEqual([0, 2])
    // Both groups of two ranks contain it.
    expect(on(2, groupOf(2))).toBe(0)
    expect(on(1, groupOf(1))).toBe(0)
    expect([loads.count, loads.anywhere, loads.countOf(groupOf(1, 2))]).toEqual([12, 5, 4])
  })

  it('wider groups - contain all ranks of a group, and have requests', () => {
    const loads = new GroupLoads()
    loads.add(groupOf(1, 2), 1)
    loads.add(groupOf(1, 2, 3), 1)
    loads.add(groupOf(3), 1)
    const keys = (group: RankGroup) => loads.wider(group).map(({ key }) => key)
    expect([keys(groupOf(1)), keys(groupOf(1, 2)), keys(groupOf(1, 4))]).toEqual([
      [':1,2', ':1,2,3'],
      [':1,2,3'],
      [],
    ])
    loads.add(ANYWHERE, 1)
    loads.add(groupOf(1, 2, 3), -1)
    expect([keys(groupOf(1, 2)), keys(ANYWHERE)]).toEqual([[''], []])
  })

  it('thirds that come and go in any order - leave nothing', () => {
    const loads = new GroupLoads()
    const groups = [groupOf(1, 2, 3), groupOf(1, 2), groupOf(2, 3, 4, 5, 6, 7, 8)]
    for (const group of groups) for (let n = 0; n < 1000; n++) loads.add(group, 1)
    for (const group of groups.toReversed()) for (let n = 0; n < 1000; n++) loads.add(group, -1)
    for (let slot = 1; slot < 9; slot++) expect(loads.on(slot, 0)).toBe(0)
    expect(loads.count).toBe(0)
  })
})
