import { describe, expect, it } from 'vitest'
import { PagedWords } from './paged-words.ts'

describe('PagedWords', () => {
  it('PagedWords - keeps its content while it grows across page sizes, and is zero at first', () => {
    const words = new PagedWords()
    let length = 0
    for (const next of [1, 63, 64, 65, 5000, 16_383, 16_384, 16_385, 50_000]) {
      words.reserve(next)
      expect(words.length).toBeGreaterThanOrEqual(next)
      expect(words.bytes).toBe(4 * words.length)
      for (let i = length; i < next; i++) {
        if (words.get(i) !== 0) throw new Error(`word ${i} is not zero`)
        words.set(i, -i)
      }
      for (let i = 0; i < next; i++) if (words.get(i) !== -i) throw new Error(`word ${i} is lost`)
      length = next
    }
    expect(words.add(16_384, 7)).toBe(7 - 16_384)
    expect(words.get(16_384)).toBe(7 - 16_384)
  })
})
