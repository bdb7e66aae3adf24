import { describe, expect, it } from 'vitest'
import { WordPool } from './word-pool.ts'

describe('WordPool', () => {
  it('WordPool - arrays do not overlap at sizes around a chunk, and memory is released', () => {
    const pool = new WordPool()
    const arrays = [3, 15, 16, 17, 3, 16].map((sizeClass) => ({
      sizeClass,
      at: pool.take(sizeClass),
    }))
    arrays.forEach(({ at, sizeClass }, i) => {
      pool.chunkOf(at).fill(i + 1, pool.offsetOf(at), pool.offsetOf(at) + (1 << sizeClass))
    })
    arrays.forEach(({ at, sizeClass }, i) => {
      const words = pool
        .chunkOf(at)
        .subarray(pool.offsetOf(at), pool.offsetOf(at) + (1 << sizeClass))
      expect(words.length).toBe(1 << sizeClass)
      expect(words.every((word) => word === i + 1)).toBe(true)
    })
    const large = arrays[3]
    if (large !== undefined) pool.release(large.at, large.sizeClass)
    expect(pool.take(17), 'the number of a chunk is used again').toBe(large?.at)
    for (const { at, sizeClass } of arrays) pool.release(at, sizeClass)
    expect(pool.bytes).toBe(0)
  })

  it('WordPool - emptied and filled by turns, it uses the same chunk', () => {
    const pool = new WordPool()
    const first = pool.take(3)
    const chunk = pool.chunkOf(first)
    for (let i = 0; i < 3; i++) {
      pool.release(first, 3)
      expect(pool.bytes).toBe(0)
      expect(pool.take(3)).toBe(first)
      expect(pool.chunkOf(first)).toBe(chunk)
    }
  })
})
