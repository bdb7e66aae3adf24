import { expect, it } from 'vitest'
import { joinedBytes } from './joined-bytes.ts'

it('pieces, some of them empty - are concatenated into a copy', () => {
  const first = Uint8Array.of(1, 2)
  const whole = joinedBytes([first, new Uint8Array(0), Uint8Array.of(3)])
  first[0] = 9
  expect([...whole]).toEqual([1, 2, 3])
  expect(joinedBytes([])).toHaveLength(0)
  expect(joinedBytes([first])).not.toBe(first)
})
