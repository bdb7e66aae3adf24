import { expect, it } from 'vitest'
import { grownBytes } from './grown-bytes.ts'

it('space that is needed - doubles within its limits, and keeps the content', () => {
  const bytes = Uint8Array.of(1, 2, 3, 4)
  expect(grownBytes(bytes, 4, { least: 64, most: 100 })).toBe(bytes)
  expect([...grownBytes(bytes, 5, { least: 0, most: 100 })]).toEqual([1, 2, 3, 4, 0, 0, 0, 0])
  expect(grownBytes(bytes, 9, { least: 0, most: 100 })).toHaveLength(9)
  expect(grownBytes(bytes, 5, { least: 64, most: 100 })).toHaveLength(64)
  expect(grownBytes(bytes, 5, { least: 64, most: 6 })).toHaveLength(6)
})
