import { describe, expect, it } from 'vitest'
import { SlabMemory } from './slab-memory.ts'

const MIB = 1 << 20

function createDraw(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

describe('SlabMemory', () => {
  it('stretches are zero and apart from each other, in any order of taking and giving', () => {
    const memory = new SlabMemory()
    const draw = createDraw(7)
    const taken: Int32Array[] = []
    let words = 0
    for (let step = 0; step < 20_000; step++) {
      // Grows to about 16 MiB, shrinks, and grows again.
      if (taken.length > 0 && draw(100) < (step % 8000 < 4000 ? 35 : 65)) {
        const at = draw(taken.length)
        const given = taken[at] as Int32Array
        expect(given.every((word) => word === given.length)).toBe(true)
        taken[at] = taken.at(-1) as Int32Array
        taken.pop()
        words -= given.length
        memory.give(given)
      } else {
        const stretch = memory.take(3000 + draw(6000))
        expect(stretch.every((word) => word === 0)).toBe(true)
        stretch.fill(stretch.length)
        taken.push(stretch)
        words += stretch.length
      }
      expect(memory.bytes).toBe(4 * words)
      expect(memory.writtenBytes).toBeGreaterThanOrEqual(4 * words)
    }
    for (const stretch of taken) memory.give(stretch)
    expect([memory.bytes, memory.writtenBytes]).toEqual([0, 0])
  })

  it('few words, in all or in one array, are arrays of their own', () => {
    const memory = new SlabMemory()
    const below = memory.take((1 << 18) - 1)
    expect(below.buffer.byteLength).toBe(below.byteLength)
    const short = memory.take(4095)
    expect(short.buffer.byteLength).toBe(4 * 4095)
    const long = memory.take(4096)
    expect(long.buffer.byteLength, 'a slab').toBe(33 * MIB)
    for (const array of [short, long, below]) memory.give(array)
    expect(memory.writtenBytes).toBe(0)
  })

  it('more than a slab - another one, and one of its own for what fits into none', () => {
    const memory = new SlabMemory()
    const first = memory.take(30 << 18)
    const second = memory.take(4 << 18)
    expect(second.buffer).not.toBe(first.buffer)
    const large = memory.take(40 << 18)
    expect(large.buffer.byteLength).toBe(40 * MIB)
    const third = memory.take(3 << 18)
    expect(third.buffer, 'fits behind the first').toBe(first.buffer)
  })

  it('free stretches beside each other are one', () => {
    const memory = new SlabMemory()
    const [a, b, c] = [11, 11, 11].map((mib) => memory.take(mib << 18)) as [
      Int32Array,
      Int32Array,
      Int32Array,
    ]
    expect(c.buffer).toBe(a.buffer)
    for (const order of [
      [a, b],
      [b, a],
    ]) {
      for (const stretch of order) memory.give(stretch)
      const both = memory.take(22 << 18)
      expect([both.buffer, both.byteOffset]).toEqual([a.buffer, 0])
      memory.give(both)
      expect(memory.take(11 << 18).byteOffset).toBe(0)
      expect(memory.take(11 << 18).byteOffset).toBe(11 * MIB)
    }
  })

  it('a slab with few words in use is named until they have been moved', () => {
    const memory = new SlabMemory()
    const stretches = Array.from({ length: 64 }, () => memory.take(1 << 16))
    const [kept, ...others] = stretches.toReversed()
    expect(kept).toBeDefined()
    expect(memory.toEmpty()).toBe(null)
    for (const stretch of others) memory.give(stretch)
    expect(memory.writtenBytes, 'the last stretch of a slab').toBeGreaterThan(12 * MIB)
    expect(memory.toEmpty()).toBe(kept?.buffer)
    const moved = memory.take(1 << 16)
    expect(moved.buffer).not.toBe(kept?.buffer)
    memory.give(kept as Int32Array)
    expect(memory.toEmpty()).toBe(null)
    expect(memory.writtenBytes).toBe(MIB / 4)
  })
})
