import { expect, it } from 'vitest'
import { SharpFilter, SmallFilter } from './bloom-filters.ts'

const low = (block: number): number => Math.imul(block + 1, 0x9e3779b1)
const high = (block: number): number => Math.imul(block + 77, 0x2c1b3c6d)

it.each([
  ['SmallFilter', (hashes: number) => new SmallFilter(hashes), 0.2],
  ['SharpFilter', (hashes: number) => new SharpFilter(hashes), 0.006],
] as const)(
  '%s - never excludes what was added, and seldom includes what was not',
  (_, create, wrongMax) => {
    for (const hashes of [1, 64, 1000, 65_536]) {
      const filter = create(hashes)
      for (let block = 0; block < hashes; block++) filter.add(low(block), high(block))
      let missing = 0
      for (let block = 0; block < hashes; block++)
        if (!filter.has(low(block), high(block))) missing += 1
      let wrong = 0
      for (let block = 0; block < 20_000; block++) {
        if (filter.has(low(1_000_000 + block), high(1_000_000 + block))) wrong += 1
      }
      expect(missing).toBe(0)
      expect(wrong / 20_000).toBeLessThan(wrongMax)
    }
  },
)
