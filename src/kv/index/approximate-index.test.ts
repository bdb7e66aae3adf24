import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ApproximateIndex } from './approximate-index.ts'
import { chainSequence } from '../hash/block-hash.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'

/** A prompt as the sequence hashes of its blocks; prompts that begin alike share them. */
const prompt = (...blocks: number[]): Uint32Array =>
  chainSequence(Uint32Array.from(blocks.flatMap((block) => [block, 1])), null)

function depths(
  index: ApproximateIndex,
  hashes: Uint32Array,
  nowMs: number,
): Record<number, number> {
  const matches = new PrefixMatches(1)
  index.find(hashes, matches, nowMs)
  const found: Record<number, number> = {}
  for (let i = 0; i < matches.count; i++) {
    const holder = matches.holders[i] ?? -1
    found[holder] = matches.device[holder] ?? 0
  }
  return found
}

describe('ApproximateIndex', () => {
  it('ApproximateIndex - a routed prompt counts until its TTL is over', () => {
    const index = new ApproximateIndex({ ttlMs: 100, entriesMax: 1000 })
    index.record(3, prompt(1, 2, 3), 0)
    expect(index.nextExpiryMs()).toBe(100)
    expect(depths(index, prompt(1, 2, 9), 99)).toEqual({ 3: 2 })
    expect(depths(index, prompt(1, 2, 9), 100)).toEqual({})
    expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
    expect(index.nextExpiryMs()).toBeNull()
  })

  it('ApproximateIndex - routing a prefix again renews only that prefix', () => {
    const index = new ApproximateIndex({ ttlMs: 100, entriesMax: 1000 })
    index.record(0, prompt(1, 2, 3, 4), 0)
    index.record(0, prompt(1, 2, 5), 60)
    expect(depths(index, prompt(1, 2, 3, 4), 120)).toEqual({ 0: 2 })
    expect(depths(index, prompt(1, 2, 5), 120)).toEqual({ 0: 3 })
  })

  it('ApproximateIndex - over the limit, the prompt routed longest ago is dropped first', () => {
    const index = new ApproximateIndex({ ttlMs: 1e9, entriesMax: 10, pruneRatio: 0.8 })
    index.record(0, prompt(1, 2, 3, 4), 0)
    index.record(0, prompt(10, 11, 12, 13), 1)
    index.record(0, prompt(1, 2), 2)
    index.record(0, prompt(20, 21, 22), 3)
    expect(index.stats().entries).toBeLessThanOrEqual(8)
    expect(depths(index, prompt(1, 2, 3, 4), 3)).toEqual({ 0: 2 })
    expect(depths(index, prompt(20, 21, 22), 3)).toEqual({ 0: 3 })
  })

  it('ApproximateIndex - a holder has no more blocks than its capacity, the prompt routed longest ago is dropped first', () => {
    const index = new ApproximateIndex({ ttlMs: 1e9, entriesMax: 1000 })
    index.record(0, prompt(1, 2, 3, 4), 0, 8)
    index.record(0, prompt(5, 6, 7, 8), 1, 8)
    index.record(1, prompt(1, 2, 3, 4), 1, 4)
    expect(index.stats().entries).toBe(12)
    index.record(0, prompt(1, 2), 2, 8)
    index.record(0, prompt(9), 3, 8)
    expect(depths(index, prompt(1, 2, 3, 4), 3)).toEqual({ 0: 2, 1: 4 })
    expect(depths(index, prompt(5, 6, 7, 8), 3)).toEqual({ 0: 4 })
    index.record(1, prompt(1, 2, 3, 4, 5), 4, 4)
    expect(depths(index, prompt(1, 2, 3, 4, 5), 4)).toEqual({ 0: 2, 1: 5 })
  })

  it('ApproximateIndex - a removed holder has no blocks, and its old leases do not affect a new holder', () => {
    const index = new ApproximateIndex({ ttlMs: 100, entriesMax: 1000 })
    index.record(0, prompt(1, 2), 0)
    index.removeHolder(0)
    expect(depths(index, prompt(1, 2), 1)).toEqual({})
    index.record(0, prompt(1, 2), 50)
    expect(depths(index, prompt(1, 2), 120)).toEqual({ 0: 2 })
  })

  it('ApproximateIndex - prompts that are sent repeatedly stay within the limit of leases', () => {
    const index = new ApproximateIndex({ ttlMs: 1e9, entriesMax: 16 })
    for (let i = 0; i < 1000; i++) index.record(0, prompt(1, 2, 3), i)
    expect(index.stats()).toMatchObject({ entries: 3, refused: 0 })
    expect(index.stats().bytes).toBeLessThan(100_000)
  })

  it('ApproximateIndex - many short new prompts stay within a memory limit', () => {
    const index = new ApproximateIndex({ ttlMs: 1e9, entriesMax: 10_000, leasesMax: 64 })
    let most = 0
    for (let i = 0; i < 1000; i++) {
      index.record(i % 3, prompt(2 * i, 2 * i + 1), i)
      most = Math.max(most, index.stats().entries)
    }
    expect(most).toBe(2 * 64)
    expect(depths(index, prompt(1998, 1999), 1000)).toEqual({ 0: 2 })
    expect(depths(index, prompt(0, 1), 1000)).toEqual({})
  })

  it('ApproximateIndex - agrees with a list of everything that was routed', () => {
    const blocks = fc.array(fc.nat(2), { minLength: 1, maxLength: 8 })
    const steps = fc.array(fc.tuple(fc.nat(2), blocks, fc.nat(40)), { maxLength: 40, size: 'max' })
    fc.assert(
      fc.property(steps, blocks, (list, query) => {
        const index = new ApproximateIndex({ ttlMs: 100, entriesMax: 1000 })
        let nowMs = 0
        const routed = list.map(([holder, routedBlocks, pauseMs]) => {
          nowMs += pauseMs
          index.record(holder, prompt(...routedBlocks), nowMs)
          return { holder, text: routedBlocks.join(), atMs: nowMs }
        })
        const expected: Record<number, number> = {}
        for (let depth = 1; depth <= query.length; depth++) {
          const head = query.slice(0, depth).join()
          for (const { holder, text, atMs } of routed) {
            if (atMs + 100 > nowMs && `${text},`.startsWith(`${head},`)) expected[holder] = depth
          }
        }
        expect(depths(index, prompt(...query), nowMs)).toEqual(expected)
      }),
      { numRuns: 300 },
    )
  })
})

it('ApproximateIndex - raising another result directly or through a separate query gives the same', () => {
  const blocks = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 6 })
  const routed = fc.array(fc.tuple(fc.integer({ min: 0, max: 70 }), blocks, fc.nat(100)))
  fc.assert(
    fc.property(routed, routed, blocks, fc.nat(200), (known, more, asked, nowMs) => {
      const indexOf = (prompts: typeof known) => {
        const index = new ApproximateIndex({ ttlMs: 100, entriesMax: 1000 })
        for (const [holder, given, atMs] of prompts.toSorted((a, b) => a[2] - b[2]))
          index.record(holder, prompt(...given), atMs)
        return index
      }
      const answer = (join: (index: ApproximateIndex, matches: PrefixMatches) => void) => {
        const matches = new PrefixMatches(1)
        indexOf(known).find(prompt(...asked), matches, nowMs)
        join(indexOf(more), matches)
        const holders = [...matches.holders.subarray(0, matches.count)].toSorted((a, b) => a - b)
        return holders.map((holder) => [holder, matches.device[holder]])
      }
      const atOnce = answer((index, matches) => index.raise(prompt(...asked), matches, nowMs))
      const apart = answer((index, matches) => {
        const side = new PrefixMatches(1)
        index.find(prompt(...asked), side, nowMs)
        matches.raise(side)
      })
      expect(atOnce).toEqual(apart)
    }),
  )
})

describe('PrefixMatches', () => {
  it('PrefixMatches - raise increases the device count and reduces what lower tiers add', () => {
    const [matches, side] = [new PrefixMatches(4), new PrefixMatches(4)]
    const set = (target: PrefixMatches, holder: number, counts: [number, number, number]): void => {
      target.add(holder)
      ;[target.device[holder], target.host[holder], target.disk[holder]] = counts
    }
    set(matches, 0, [2, 3, 4])
    set(matches, 1, [5, 0, 0])
    set(side, 0, [4, 0, 0])
    set(side, 1, [3, 0, 0])
    set(side, 2, [7, 0, 0])
    matches.raise(side)
    const rows = [0, 1, 2].map((h) => [matches.device[h], matches.host[h], matches.disk[h]])
    expect(rows).toEqual([
      [4, 1, 4],
      [5, 0, 0],
      [7, 0, 0],
    ])
    expect([...matches.holders.subarray(0, matches.count)]).toEqual([0, 1, 2])
    side.device[0] = 8
    matches.raise(side)
    expect([matches.device[0], matches.host[0], matches.disk[0]]).toEqual([8, 0, 1])
  })
})
