import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { KvEvent } from '../../kv/index.ts'
import { HeldBlocks } from './held-blocks.ts'
import { UnsentBlocks } from './unsent-blocks.ts'

type Stored = Extract<KvEvent, { kind: 'stored' }>

/** Every block once, as a snapshot reads it. */
function runsOf(held: HeldBlocks, sizeMax = 1_000): Stored[] {
  const events: KvEvent[] = []
  const unsent = new UnsentBlocks(held, 'device')
  while (unsent.size > 0) unsent.take(sizeMax, events)
  unsent.close()
  return events as Stored[]
}

describe('HeldBlocks - a reference-counted set', () => {
  it('random adds and removals - equal a plain map, also with collisions and growth', () => {
    // Few different low halves and all of them on few home slots: long probe runs, many closed gaps.
    const key = fc.tuple(
      fc.integer({ min: 0, max: 400 }).map((n) => (n * 64) >>> 0),
      fc.constantFrom(0, 1),
    )
    const step = fc.tuple(fc.boolean(), key)
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
        const held = new HeldBlocks()
        const naive = new Map<string, number>()
        for (const [isAdd, [low, high]] of steps) {
          const name = `${low}:${high}`
          const refs = naive.get(name) ?? 0
          if (isAdd) {
            expect(held.add(low, high, null, null)).toBe(refs === 0)
            naive.set(name, refs + 1)
          } else {
            expect(held.remove(low, high)).toBe(refs <= 1)
            if (refs <= 1) naive.delete(name)
            else naive.set(name, refs - 1)
          }
          expect(held.has(low, high)).toBe(naive.has(name))
        }
        expect(held.size).toBe(naive.size)
        const listed = runsOf(held).flatMap((run) => [...run.hashes.entries()])
        expect(listed).toHaveLength(2 * naive.size)
      }),
    )
  })

  it('a cycle of parents - is listed once and does not hang', () => {
    const held = new HeldBlocks()
    held.add(1, 0, [2, 0], null)
    held.add(2, 0, [1, 0], null)
    expect(runsOf(held).reduce((sum, run) => sum + run.hashes.length / 2, 0)).toBe(2)
  })

  it('a chain of 50,000 blocks - is listed once, parents first', () => {
    const held = new HeldBlocks()
    for (let i = 0; i < 50_000; i++) held.add(i, 7, i === 0 ? null : [i - 1, 7], [i, 8])
    const runs = runsOf(held)
    // Climbing begins anywhere in the table; every block is listed once, parents first.
    const seen = new Set<number>()
    for (const run of runs) {
      if (run.parent !== null) expect(seen.has(run.parent[0])).toBe(true)
      for (let i = 0; i < run.hashes.length; i += 2) seen.add(run.hashes[i] ?? -1)
    }
    expect(seen.size).toBe(50_000)
  })
})
