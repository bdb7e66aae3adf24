import fc from 'fast-check'
import { expect, it } from 'vitest'
import { BlockSet } from './block-set.ts'

it('BlockSet - agrees with a plain set after random changes', () => {
  const change = fc.record({
    isAdded: fc.boolean(),
    from: fc.nat(200),
    length: fc.integer({ min: 1, max: 90 }),
  })
  fc.assert(
    fc.property(fc.nat(70), fc.array(change, { maxLength: 30 }), (start, changes) => {
      const set = new BlockSet(start, start + 3, start + 5)
      const plain = new Set([start + 3, start + 4])
      for (const { isAdded, from, length } of changes) {
        const first = start + from
        const offsets = Array.from({ length }, (_, i) => first + i)
        const before = plain.size
        if (isAdded) for (const at of offsets) plain.add(at)
        else for (const at of offsets) plain.delete(at)
        const changed = isAdded ? set.add(first, first + length) : set.delete(first, first + length)
        expect(changed).toBe(Math.abs(plain.size - before))
        expect(set.count).toBe(plain.size)
        if (plain.size === 0) return
        expect([set.low, set.high]).toEqual([Math.min(...plain), Math.max(...plain) + 1])
        expect(set.isStretch).toBe(set.high - set.low === plain.size)
        for (let at = start; at < start + 300; at += 7) {
          let end = at
          while (plain.has(end)) end += 1
          expect([set.has(at), set.endOf(at)]).toEqual([plain.has(at), end])
        }
      }
    }),
    { numRuns: 100 },
  )
})

it('BlockSet.deleteInner - removes a block only if the set has it and its ends stay', () => {
  const set = new BlockSet(40, 45, 145)
  set.delete(100, 102)
  const inner = [46, 63, 64, 99, 102, 143]
  const others = [44, 45, 100, 101, 144, 145, 200, ...inner]
  expect(inner.map((at) => set.deleteInner(at))).toEqual(inner.map(() => true))
  expect(others.map((at) => set.deleteInner(at))).toEqual(others.map(() => false))
  expect([set.count, set.low, set.high]).toEqual([92, 45, 145])
  expect(inner.filter((at) => set.has(at))).toEqual([])
  expect([47, 62, 65, 98, 103, 142].filter((at) => !set.has(at))).toEqual([])
})
