import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { HolderPlaces } from './holder-places.ts'

describe('HolderPlaces', () => {
  it('HolderPlaces - agrees with a Map while it grows and shrinks', () => {
    const change = fc.record({ holder: fc.nat(3000), isDeleted: fc.boolean(), count: fc.nat(900) })
    fc.assert(
      fc.property(fc.array(change, { maxLength: 12, size: 'max' }), (changes) => {
        const places = new HolderPlaces()
        const map = new Map<number, number>()
        for (const { holder, isDeleted, count } of changes) {
          for (let i = holder; i < holder + count; i++) {
            if (!isDeleted) {
              places.set(i, i + count)
              map.set(i, i + count)
            } else {
              // Also holders that are not present.
              map.delete(i)
              places.delete(i)
            }
          }
          for (let i = 0; i < 4000; i++) expect(places.get(i)).toBe(map.get(i) ?? -1)
        }
      }),
      { numRuns: 15 },
    )
  })

  it('HolderPlaces - many inserts into a table that has just been shrunk fit', () => {
    const places = new HolderPlaces()
    const full = 1 << 16
    for (let i = 0; i < full; i++) places.set(i, i)
    for (let i = 0; i < full; i++) places.delete(i)
    // Additions and removals leave tombstones, until a very small table replaces a large empty one.
    let next = full
    for (const { bytes } = places; places.bytes >= bytes; next++) {
      places.set(next, 1)
      places.delete(next)
    }
    for (let i = 0; i < full; i++) places.set(i, i + 1)
    for (let i = 0; i < full; i += 7) expect(places.get(i)).toBe(i + 1)
    expect(places.get(next - 1)).toBe(-1)
  })
})
