import { describe, expect, it } from 'vitest'
import { drawSeed } from './draw-seed.ts'

describe('drawSeed', () => {
  it('same seed and index - same draw, independent of earlier draws', () => {
    expect(drawSeed(42, 7)).toBe(drawSeed(42, 7))
  })

  it('neighbouring seeds and indexes - all different u32', () => {
    const seen = new Set<number>()
    for (let seed = -50; seed < 50; seed++) {
      for (let index = 0; index < 100; index++) seen.add(drawSeed(seed, index))
    }
    expect(seen.size).toBe(10_000)
    for (const value of seen) expect(value).toBe(value >>> 0)
  })

  it('seeds beyond 32 bits - all bits count', () => {
    expect(drawSeed(5, 0)).not.toBe(drawSeed(5 + 2 ** 32, 0))
    expect(drawSeed(Number.MAX_SAFE_INTEGER, 0)).not.toBe(drawSeed(2 ** 32 - 1, 0))
  })

  it('bits of many draws - each is set about half of the time', () => {
    const counts = Array.from({ length: 32 }, () => 0)
    for (let index = 0; index < 4096; index++) {
      const value = drawSeed(1, index)
      for (let bit = 0; bit < 32; bit++) counts[bit] = (counts[bit] ?? 0) + ((value >>> bit) & 1)
    }
    for (const count of counts) expect(Math.abs(count - 2048)).toBeLessThan(200)
  })
})
