import { expect, it } from 'vitest'
import { SharpFilter, SmallFilter } from './bloom-filters.ts'

const low = (block: number): number => Math.imul(block + 1, 0x9e3779b1)
const high = (block: number): number => Math.imul(block + 77, 0x2c1b3c6d)

function smallFilter(hashes: number) {
  const filter = new SmallFilter(hashes)
  return {
    add: (block: number) => filter.add(low(block), high(block)),
    has: (block: number) => filter.bitOf(low(block), high(block)) === 1,
  }
}

function sharpFilter(hashes: number) {
  const filter = new SharpFilter(hashes)
  return {
    add: (block: number) => filter.add(low(block), high(block)),
    has: (block: number) => filter.has(low(block), high(block)),
  }
}

it.each([
  ['SmallFilter', smallFilter, 0.03],
  ['SharpFilter', sharpFilter, 0.006],
] as const)(
  '%s - never excludes what was added, and seldom includes what was not',
  (_, create, wrongMax) => {
    for (const hashes of [1, 64, 1000, 65_536]) {
      const filter = create(hashes)
      for (let block = 0; block < hashes; block++) filter.add(block)
      let missing = 0
      for (let block = 0; block < hashes; block++) if (!filter.has(block)) missing += 1
      let wrong = 0
      for (let block = 0; block < 20_000; block++) {
        if (filter.has(1_000_000 + block)) wrong += 1
      }
      expect(missing).toBe(0)
      expect(wrong / 20_000).toBeLessThan(wrongMax)
    }
  },
)
