import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LooseBlocks } from './loose-blocks.ts'

const low = (block: number): number => Math.imul(block, 0x9e3779b1) | 0
const high = (block: number): number => Math.imul(block + 1, 0x85ebca6b) | 0

const change = fc.record({
  kind: fc.constantFrom(...(['hold', 'hold', 'remove', 'leave', 'evict', 'renew'] as const)),
  holder: fc.nat(5),
  first: fc.nat(4000),
  count: fc.nat(1500),
})

describe('LooseBlocks', () => {
  it('LooseBlocks - agrees with plain sets while blocks are added, removed, moved and evicted', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 25, size: 'max' }), (changes) => {
        const loose = new LooseBlocks(
          { droppedLoose: () => undefined, droppedAllLoose: () => undefined },
          10_000,
        )
        const sets = Array.from({ length: 6 }, () => new Set<number>())
        const has = (block: number, holder: number): boolean => {
          const isHere = loose.lookup(low(block), high(block))
          if (isHere && !loose.mayHave(low(block), high(block))) throw new Error(`bit of ${block}`)
          return isHere && loose.has(holder)
        }
        for (const { kind, holder, first, count } of changes) {
          const set = sets[holder] ?? new Set()
          loose.upkeep.tick += 1
          if (kind === 'leave') {
            loose.removeHolder(holder)
            set.clear()
          } else if (kind === 'evict') {
            loose.upkeep.evictOldest()
            for (const [other, held] of sets.entries()) {
              for (const block of held) if (!has(block, other)) held.delete(block)
            }
          } else {
            for (let block = first; block < first + count; block++) {
              const isHere = loose.lookup(low(block), high(block))
              if (kind === 'remove') {
                const hashes = Uint32Array.of(low(block), high(block))
                const isGone = loose.remove(holder, hashes, 0) === 1
                if (isGone !== set.delete(block)) throw new Error(`removal of ${block}`)
              } else if (kind === 'renew') {
                if (isHere) loose.upkeep.renew()
              } else {
                if (isHere) loose.hold(holder)
                else loose.add(Uint32Array.of(low(block), high(block)), 0, 1, holder)
                set.add(block)
              }
            }
          }
          loose.upkeep.tend()
          expect(loose.entries).toBe(sets.reduce((sum, held) => sum + held.size, 0))
          for (let block = 0; block < 5500; block += 7) {
            for (const [other, held] of sets.entries()) {
              if (has(block, other) !== held.has(block)) throw new Error(`${other} and ${block}`)
            }
          }
        }
        for (let holder = 0; holder < 6; holder++) loose.removeHolder(holder)
        expect([loose.count, loose.entries, loose.bytes]).toEqual([0, 0, 0])
      }),
      { numRuns: 20 },
    )
  })
})
