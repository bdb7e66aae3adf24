import { describe, expect, it } from 'vitest'
import { InFlightMap, InFlightSet } from './in-flight.ts'
import { seededRandom } from './random.ts'

describe('InFlightMap', () => {
  it('random changes - behave like a Map', () => {
    const random = seededRandom(7)
    const map = new InFlightMap<string, number>()
    const expected = new Map<string, number>()
    for (let step = 0; step < 1500; step++) {
      const key = `key ${Math.floor(random.next() * 40)}`
      if (random.next() < 0.5) {
        map.set(key, step)
        expected.set(key, step)
      } else expect(map.delete(key)).toBe(expected.delete(key))
      expect(map.size).toBe(expected.size)
      expect(map.get(key)).toBe(expected.get(key))
      expect(map.has(key)).toBe(expected.has(key))
    }
    const sorted = (all: Iterable<number>): number[] => [...all].toSorted((a, b) => a - b)
    expect(sorted(map.values())).toEqual(sorted(expected.values()))
    map.clear()
    expect([map.size, map.values()]).toEqual([0, []])
  })

  it('a deletion during iteration - does not disturb it', () => {
    const map = new InFlightMap<number, string>()
    for (let key = 0; key < 5; key++) map.set(key, `value ${key}`)
    for (const _ of map.values()) for (let key = 0; key < 5; key++) map.delete(key)
    expect(map.size).toBe(0)
  })
})

describe('InFlightSet', () => {
  it('random changes - behave like a Set', () => {
    const random = seededRandom(8)
    const items = Array.from({ length: 30 }, (_, id) => ({ id, place: -1 }))
    const set = new InFlightSet<(typeof items)[number]>()
    const expected = new Set<(typeof items)[number]>()
    for (let step = 0; step < 1500; step++) {
      const item = items[Math.floor(random.next() * items.length)] as (typeof items)[number]
      if (random.next() < 0.5) {
        set.add(item)
        expected.add(item)
      } else {
        set.delete(item)
        expected.delete(item)
      }
      expect(set.size).toBe(expected.size)
    }
    const ids = (all: Iterable<{ id: number }>) =>
      [...all].map(({ id }) => id).toSorted((a, b) => a - b)
    expect(ids(set.values())).toEqual(ids(expected))
  })

  it('an item of another set - is not removed', () => {
    const [one, other] = [
      new InFlightSet<{ place: number }>(),
      new InFlightSet<{ place: number }>(),
    ]
    const items = [{ place: -1 }, { place: -1 }]
    one.add(items[0] as { place: number })
    other.add(items[1] as { place: number })
    other.delete(items[0] as { place: number })
    expect([one.size, other.size]).toEqual([1, 1])
  })
})
