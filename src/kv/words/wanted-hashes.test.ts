import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WantedHashes } from './wanted-hashes.ts'

// Few values, so that hashes share halves; 0 and 1 include those that no row can contain.
const half = fc.constantFrom(0, 1, -1, 7, 0x7fffffff, -0x80000000, 123_456)
const pair = fc.tuple(half, half)
const keyOf = (low: number, high: number): string => `${low} ${high}`

it('WantedHashes - agree with a plain set, whatever the hashes are', () => {
  const wanted = new WantedHashes()
  fc.assert(
    fc.property(fc.array(pair), fc.array(pair), fc.array(pair), (hashes, asked, blocks) => {
      const list = Int32Array.from([9, 9, ...hashes.flat()])
      wanted.begin(hashes.length)
      // In two parts.
      const half = hashes.length >> 1
      wanted.addEach(list, 1, half + 1)
      wanted.addEach(list, half + 1, hashes.length + 1)
      expect(wanted.space).toBeGreaterThanOrEqual(0)
      const plain = new Set(hashes.map(([low, high]) => keyOf(low, high)))
      expect(wanted.left).toBe(plain.size)
      for (const [low, high] of asked) {
        expect(wanted.has(low, high)).toBe(plain.has(keyOf(low, high)))
        expect(wanted.take(low, high)).toBe(plain.delete(keyOf(low, high)))
      }
      const positions = Int32Array.from(blocks, (_, i) => blocks.length - 1 - i)
      const isTaken = new Uint8Array(blocks.length)
      wanted.takeEach(Int32Array.from(blocks.flat()), positions, blocks.length, isTaken)
      positions.forEach((position, i) => {
        const [low, high] = blocks[position] ?? [0, 0]
        expect(isTaken[i]).toBe(plain.delete(keyOf(low, high)) ? 1 : 0)
      })
      expect(wanted.left).toBe(plain.size)
      const rest = Array.from(new Int32Array(wanted.rest().buffer))
      const keys = rest.flatMap((low, i) => (i % 2 === 0 ? [keyOf(low, rest[i + 1] ?? 0)] : []))
      expect(keys.toSorted()).toEqual([...plain].toSorted())
    }),
    { numRuns: 300 },
  )
})

it('WantedHashes - many hashes, of which half are among the blocks', () => {
  const wanted = new WantedHashes()
  const count = 20_000
  const words = Int32Array.from({ length: 2 * count }, (_, i) => Math.imul(i + 1, 0x9e3779b1))
  wanted.begin(count / 2)
  wanted.addEach(words, 0, count / 2)
  const positions = Int32Array.from({ length: count }, (_, i) => i)
  const isTaken = new Uint8Array(count)
  wanted.takeEach(words, positions, count, isTaken)
  expect(isTaken.indexOf(0)).toBe(count / 2)
  expect(isTaken.lastIndexOf(1)).toBe(count / 2 - 1)
  expect(wanted.left).toBe(0)
  expect(wanted.rest()).toHaveLength(0)
})
