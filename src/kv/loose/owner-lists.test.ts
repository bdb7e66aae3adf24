import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SET_STAYS } from './loose-word.ts'
import { OwnerLists } from './owner-lists.ts'

/** Stays with small numbers, which are kept in the ref itself, and with larger ones. */
const stay = fc.oneof(fc.integer({ min: 1, max: SET_STAYS + 3 }), fc.constantFrom(1000, 1 << 22))

describe('OwnerLists', () => {
  it('OwnerLists - two blocks agree with plain sets while owners come and go', () => {
    const steps = fc.array(fc.tuple(fc.nat(1), stay), { maxLength: 120, size: 'max' })
    fc.assert(
      fc.property(steps, (steps) => {
        const lists = new OwnerLists()
        const refs = [1, SET_STAYS + 1]
        const sets = refs.map((ref) => new Set([ref]))
        for (const [block, owner] of steps) {
          const set = sets[block] ?? new Set()
          const ref = refs[block] as number
          expect(lists.has(ref, owner)).toBe(set.has(owner))
          if (!set.has(owner)) {
            refs[block] = lists.add(ref, owner)
            set.add(owner)
          } else if (set.size > 1) {
            refs[block] = lists.remove(ref, owner)
            set.delete(owner)
          }
          for (const [i, each] of refs.entries()) {
            const owners = Array.from({ length: lists.lengthOf(each) }, (_, k) =>
              lists.ownerAt(each, k),
            )
            expect(new Set(owners)).toEqual(sets[i])
            expect(owners.length).toBe(sets[i]?.size)
            // A word has 24 bits for it.
            expect((each << 8) >> 8).toBe(each)
          }
        }
        for (const ref of refs) lists.release(ref)
        expect(lists.bytes).toBe(0)
      }),
    )
  })
})
