import fc from 'fast-check'
import { expect, it } from 'vitest'
import { BlockSets } from './block-sets.ts'

it('BlockSets - agree with plain sets after random changes', () => {
  const change = fc.record({
    isAdded: fc.boolean(),
    from: fc.nat(200),
    length: fc.integer({ min: 1, max: 90 }),
  })
  fc.assert(
    fc.property(fc.nat(70), fc.array(change, { maxLength: 30 }), (start, changes) => {
      const sets = new BlockSets()
      // Its neighbours in the pool.
      const others = [sets.create(start, start + 3, start + 5), sets.create(0, 0, 1)]
      let set = sets.create(start, start + 3, start + 5)
      others.push(sets.create(0, 0, 200))
      const plain = new Set([start + 3, start + 4])
      for (const { isAdded, from, length } of changes) {
        const first = start + from
        const offsets = Array.from({ length }, (_, i) => first + i)
        const before = plain.size
        if (isAdded) for (const at of offsets) plain.add(at)
        else for (const at of offsets) plain.delete(at)
        if (isAdded) set = sets.add(set, first, first + length)
        else expect(sets.delete(set, first, first + length)).toBe(before - plain.size)
        expect(sets.countOf(set)).toBe(plain.size)
        if (plain.size === 0) return
        expect([sets.lowOf(set), sets.highOf(set)]).toEqual([
          Math.min(...plain),
          Math.max(...plain) + 1,
        ])
        expect(sets.isStretch(set)).toBe(Math.max(...plain) + 1 - Math.min(...plain) === plain.size)
        for (let at = start; at < start + 300; at += 7) {
          let end = at
          while (plain.has(end)) end += 1
          expect([sets.has(set, at), sets.endOf(set, at)]).toEqual([plain.has(at), end])
        }
      }
      expect(others.map((other) => sets.countOf(other))).toEqual([2, 1, 200])
      for (const each of [set, ...others]) sets.release(each)
      expect(sets.bytes).toBe(0)
    }),
    { numRuns: 100 },
  )
})

it('BlockSets.deleteInner - removes a block only if the set has it and its ends stay', () => {
  const sets = new BlockSets()
  const set = sets.create(40, 45, 145)
  sets.delete(set, 100, 102)
  const inner = [46, 63, 64, 99, 102, 143]
  const others = [44, 45, 100, 101, 144, 145, 200, ...inner]
  expect(inner.map((at) => sets.deleteInner(set, at))).toEqual(inner.map(() => true))
  expect(others.map((at) => sets.deleteInner(set, at))).toEqual(others.map(() => false))
  expect([sets.countOf(set), sets.lowOf(set), sets.highOf(set)]).toEqual([92, 45, 145])
  expect(inner.filter((at) => sets.has(set, at))).toEqual([])
  expect([47, 62, 65, 98, 103, 142].filter((at) => !sets.has(set, at))).toEqual([])
})

it('BlockSets.createOf - has the blocks at these offsets, and grows like any other set', () => {
  const sets = new BlockSets()
  const offsets = [45, 47, 63, 64, 96, 143]
  let set = sets.createOf(40, Int32Array.of(7, ...offsets, 200), 1, 7)
  const range = Array.from({ length: 400 }, (_, at) => at)
  expect([sets.countOf(set), sets.lowOf(set), sets.highOf(set)]).toEqual([6, 45, 144])
  expect(range.filter((at) => sets.has(set, at))).toEqual(offsets)
  set = sets.add(set, 41, 43)
  set = sets.add(set, 390, 392)
  expect([sets.countOf(set), sets.lowOf(set), sets.highOf(set)]).toEqual([10, 41, 392])
  expect(range.filter((at) => sets.has(set, at))).toEqual([41, 42, ...offsets, 390, 391])
})
