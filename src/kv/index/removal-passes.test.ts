/** When the deferred removals of a worker are made, and the memory that this releases. */
import { describe, expect, it } from 'vitest'
import { hashesOf, none, removed, stored } from '../../../test/kv/chain-events.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { checkRuns } from '../runs/run-invariants.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'

describe('passes over deferred removals', () => {
  it.each([3, 7, 28, 100, 1000])(
    'chains of %i - memory is at most 18 bytes per block more than before, little for the last sixtieth, and then none',
    (length) => {
      const index = new EventPrefixIndex()
      const matches = new PrefixMatches(1)
      const count = Math.floor(140_000 / length)
      const blocks = count * length
      const chains = Array.from({ length: count }, (_, i) => hashesOf(10_000 * i, length))
      for (const hashes of chains) index.apply(0, stored(hashes, 0, length, 'device'))
      const full = index.stats().bytes
      for (let step = 0; step < blocks; step++) {
        // A multiple of the count of chains plus one would be the order of their blocks.
        const number = (step * 61_879) % blocks
        const at = Math.floor(number / count)
        index.apply(0, removed(chains[number % count] ?? none, at, at + 1))
        if (step % 1000 !== 999) continue
        // A query needs filters of all that waits.
        index.find(hashesOf(5_000_000, 2), matches)
        // Not `stats`, which may make all passes.
        const { bytes, entries } = index.device
        expect(entries).toBe(blocks - step - 1)
        expect(bytes).toBeLessThan(full + 18 * blocks)
        if (entries > 500 && entries < blocks / 60) expect(bytes / entries).toBeLessThan(64)
      }
      expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
      expect(index.stats().bytes).toBeLessThan(16_384)
    },
  )

  it('a run of which few blocks are left is dissolved, which releases the memory of all runs', () => {
    const index = new EventPrefixIndex()
    const chains = Array.from({ length: 300 }, (_, i) => hashesOf(1000 * i, 40))
    for (const hashes of chains) index.apply(0, stored(hashes, 0, 40, 'device'))
    for (const hashes of chains.slice(1)) index.apply(0, removed(hashes, 0, 40))
    const last = chains[0] ?? none
    for (let block = 1; block < 39; block++) {
      if (block % 16 !== 0) index.apply(0, removed(last, block, block + 1))
    }
    const { blocks, loose } = index.device.parts
    expect(index.stats()).toMatchObject({ entries: 4, blocks: 4 })
    expect([blocks.runs.live, loose.count]).toEqual([0, 4])
    checkRuns(index.device)
  })

  it('a worker with shorter chains than the others - a pass is made before all its blocks wait', () => {
    const index = new EventPrefixIndex()
    const [count, length] = [50, 30]
    for (let i = 0; i < 20; i++) {
      index.apply(1, stored(hashesOf(1_000_000 + 10_000 * i, 1000), 0, 1000, 'device'))
    }
    const chains = Array.from({ length: count }, (_, i) => hashesOf(10_000 * i, length))
    for (const hashes of chains) index.apply(0, stored(hashes, 0, length, 'device'))
    for (let step = 0; step < count * length; step++) {
      const number = (step * 61_879) % (count * length)
      const at = Math.floor(number / count)
      index.apply(0, removed(chains[number % count] ?? none, at, at + 1))
    }
    expect(index.device.parts.deferred.count).toBeLessThan(32)
    // Removed blocks between the few that still wait are among them.
    expect(index.device.blocks).toBeLessThan(20_500)
  })

  it('removals of blocks that were never stored - are dropped by the next pass', () => {
    const index = new EventPrefixIndex()
    const hashes = hashesOf(1, 200)
    index.apply(0, stored(hashes, 0, 200, 'device'))
    for (let i = 0; i < 1000; i++) index.apply(0, removed(hashesOf(50_000 + 10 * i, 1), 0, 1))
    const { deferred } = index.device.parts
    expect(deferred.count).toBeLessThan(150)
    expect(index.stats().entries).toBe(200)
    expect(deferred.count).toBe(0)
  })

  it('queries that have to check removals for long - are the reason for a pass', () => {
    const index = new EventPrefixIndex()
    const matches = new PrefixMatches(2)
    const hashes = hashesOf(1, 300)
    index.apply(0, stored(hashes, 0, 300, 'device'))
    index.apply(0, removed(hashes, 100, 101))
    const { deferred } = index.device.parts
    const other = hashesOf(90_000, 1)
    // Each query checks 30 blocks, so that a pass over the 300 is due after three.
    for (let query = 0; query < 3; query++) {
      expect(deferred.count).toBe(1)
      index.find(hashes.subarray(0, 60), matches)
      expect(matches.device[0]).toBe(30)
      index.apply(1, stored(other, 0, 1, 'device'))
    }
    expect(deferred.count).toBe(0)
    index.find(hashes, matches)
    expect(matches.device[0]).toBe(100)
  })

  describe('in parts', () => {
    /** Chains of a worker, and their blocks in no order. */
    function makeChains(count: number, length: number): [Uint32Array[], [Uint32Array, number][]] {
      const chains = Array.from({ length: count }, (_, i) => hashesOf(10_000 * i, length))
      const order = Array.from({ length: count * length }, (_, step): [Uint32Array, number] => {
        const number = (step * 61_879) % (count * length)
        return [chains[number % count] ?? none, Math.floor(number / count)]
      })
      return [chains, order]
    }

    it('an event makes a small part of a pass, and the number of entries is right at any time', () => {
      const index = new EventPrefixIndex({ passPartBlocks: 1 })
      const [chains, order] = makeChains(50, 30)
      for (const hashes of chains) index.apply(0, stored(hashes, 0, 30, 'device'))
      const { deferred, holdings } = index.device.parts
      let [largest, parts] = [0, 0]
      order.forEach(([hashes, at], step) => {
        const before = holdings.entries
        index.apply(0, removed(hashes, at, at + 1))
        if (holdings.entries < before) parts += 1
        largest = Math.max(largest, before - holdings.entries)
        expect(index.device.entries).toBe(1499 - step)
      })
      // At most the cost of a part (17), and the rest of a run.
      expect(largest).toBeLessThanOrEqual(17 + 30)
      expect(parts).toBeGreaterThan(50)
      // What was removed while the last large pass was being made.
      expect(deferred.count).toBeLessThan(300)
      expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
      checkRuns(index.device)
    })

    it('a worker that leaves meanwhile - nothing of the pass concerns it when it comes back', () => {
      const index = new EventPrefixIndex({ passPartBlocks: 1 })
      const [chains, order] = makeChains(50, 30)
      const matches = new PrefixMatches(1)
      const { deferred, holdings } = index.device.parts
      for (let round = 0; round < 3; round++) {
        for (const hashes of chains) index.apply(0, stored(hashes, 0, 30, 'device'))
        expect(index.stats().entries).toBe(1500)
        let step = 0
        for (; holdings.entries > 1000; step++) {
          const [hashes, at] = order[step] ?? [none, 0]
          index.apply(0, removed(hashes, at, at + 1))
        }
        expect(deferred.of(0)?.taken).toBeGreaterThan(0)
        const isGone = order.slice(0, step).some(([hashes, at]) => hashes === chains[0] && at === 0)
        index.find(chains[0] ?? none, matches)
        expect(matches.count).toBe(isGone ? 0 : 1)
        index.removeHolder(0)
        expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
      }
      checkRuns(index.device)
    })

    it('loose blocks that a query makes a run of meanwhile - are removed there', () => {
      const index = new EventPrefixIndex({ passPartBlocks: 1 })
      // Short runs are not dissolved: then, queries make no runs for a while.
      const [chains, order] = makeChains(75, 20)
      const matches = new PrefixMatches(1)
      for (const hashes of chains) index.apply(0, stored(hashes, 0, 20, 'device'))
      const chain = hashesOf(900_000, 10)
      for (const at of [0, 5]) index.apply(0, stored(chain, at, at + 5, 'device'))
      const { blocks, deferred, loose } = index.device.parts
      expect(loose.count).toBe(10)
      // After eight removals that had to be searched for, this one is not looked up.
      for (const [hashes, at] of order.slice(0, 100)) index.apply(0, removed(hashes, at, at + 1))
      const before = deferred.count
      index.apply(0, removed(chain, 3, 4))
      expect([loose.count, deferred.count]).toEqual([10, before + 1])
      let step = 100
      for (; blocks.count > 1300; step++) {
        const [hashes, at] = order[step] ?? [none, 0]
        index.apply(0, removed(hashes, at, at + 1))
      }
      expect(deferred.of(0)?.taken).toBeGreaterThan(0)
      index.find(chain, matches)
      expect([matches.device[0], loose.count]).toEqual([3, 0])
      expect(index.stats().entries).toBe(1500 - step + 9)
      expect(deferred.count).toBe(0)
      index.find(chain, matches)
      expect(matches.device[0]).toBe(3)
      checkRuns(index.device)
    })
  })
})
