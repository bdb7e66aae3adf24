import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BlockArena, PAGE_BLOCKS } from './block-arena.ts'
import { sharesFor } from './page-shares.ts'
import { RunBlocks } from '../runs/run-blocks.ts'

const change = fc.record({
  isTaken: fc.boolean(),
  blocks: fc.integer({ min: 1, max: 32 }),
  at: fc.nat(),
})

describe('PageShares', () => {
  it('sharesFor - a share has space for the blocks, and a page for the shares', () => {
    for (let blocks = 1; blocks <= PAGE_BLOCKS / 2; blocks++) {
      const arena = new BlockArena(1 << 12)
      const shares = sharesFor(blocks)
      const places = Array.from({ length: shares }, (_, run) => arena.takeShare(run, shares))
      expect(new Set(places.map((place) => Math.floor(place / PAGE_BLOCKS))).size).toBe(1)
      const second = places[1] as number
      arena.releaseShare(second)
      expect(arena.takeShare(9, shares), 'a free share is used first').toBe(second)
      for (const place of places) expect(arena.roomAfter(place)).toBeGreaterThanOrEqual(blocks - 1)
    }
    expect(sharesFor(PAGE_BLOCKS / 2 + 1)).toBe(1)
  })

  it('runs that share a page - a branch of one does not protect the others from eviction', () => {
    const blocks = new RunBlocks(1 << 12)
    const [first, second, branch] = [0, 1, 2].map((seed) => {
      const run = blocks.runs.create(false)
      blocks.share(run, 8)
      blocks.append(
        run,
        Uint32Array.from({ length: 16 }, (_, i) => 100 * seed + i),
        0,
        8,
      )
      return run
    })
    blocks.branches.attach(branch as number, blocks.reader.lastOf(first as number))
    expect(blocks.arena.pagesLive).toBe(1)
    expect(blocks.branches.isRunBranched(first as number)).toBe(true)
    expect(blocks.branches.isRunBranched(second as number)).toBe(false)
  })

  it('PageShares - shares do not overlap, have their run, and pages are used again', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 120, size: 'max' }), (changes) => {
        const arena = new BlockArena(1 << 14)
        const taken: { run: number; place: number; blocks: number }[] = []
        changes.forEach(({ isTaken, blocks, at }, run) => {
          if (isTaken) taken.push({ run, place: arena.takeShare(run, sharesFor(blocks)), blocks })
          else if (taken.length > 0) {
            const [gone] = taken.splice(at % taken.length, 1)
            if (gone === undefined) return
            // Any position of the share names it.
            arena.releaseShare(gone.place + (at % gone.blocks))
            expect(arena.runOf(gone.place)).toBe(-1)
          }
          const positions = new Set<number>()
          for (const { run: own, place, blocks: count } of taken) {
            for (let i = 0; i < count; i++) {
              positions.add(place + i)
              if (arena.runOf(place + i) !== own) throw new Error(`block ${i} of run ${own}`)
              if (arena.roomAfter(place + i) !== arena.roomAfter(place) - i) throw new Error('room')
            }
          }
          expect(positions.size).toBe(taken.reduce((sum, { blocks: count }) => sum + count, 0))
        })
        for (const { place } of taken) arena.releaseShare(place)
        expect([arena.pagesLive, arena.bytes - arena.bytesFree]).toEqual([0, 0])
      }),
      { numRuns: 30 },
    )
  })
})
