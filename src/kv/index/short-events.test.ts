import { describe, expect, it } from 'vitest'
import type { KvEvent } from '../events/kv-event.ts'
import { NaivePrefixIndex } from '../prefix/naive-prefix-index.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { checkRuns } from '../runs/run-invariants.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'

const none = new Uint32Array(0)

/** `count` hashes in no particular order, starting with a number. */
const hashesOf = (first: number, count: number): Uint32Array =>
  Uint32Array.from({ length: 2 * count }, (_, i) => Math.imul(first + i + 1, 0x9e3779b1) >>> 0)

const stored = (hashes: Uint32Array, from: number, to: number): KvEvent => ({
  kind: 'stored',
  parent: from === 0 ? null : [hashes[2 * from - 2] as number, hashes[2 * from - 1] as number],
  hashes: hashes.slice(2 * from, 2 * to),
  localHashes: none,
  tier: 'device',
})

const removed = (hashes: Uint32Array, block: number): KvEvent => ({
  kind: 'removed',
  hashes: hashes.slice(2 * block, 2 * block + 2),
  tier: 'device',
})

describe('EventPrefixIndex', () => {
  it.each([1, 2, 5])(
    'random removal - chains of 100 blocks on %i workers give the results of the oracle',
    (holders) => {
      const [index, oracle] = [new EventPrefixIndex(), new NaivePrefixIndex()]
      const chains = Array.from({ length: 20 }, (_, i) => hashesOf(1000 * i, 100))
      for (const hashes of chains) {
        for (let holder = 0; holder < holders; holder++) {
          for (const each of [index, oracle]) each.apply(holder, stored(hashes, 0, 100))
        }
      }
      const [found, expected] = [new PrefixMatches(8), new PrefixMatches(8)]
      for (let step = 0; step < 2000 * holders; step++) {
        const number = (step * 7919) % 2000
        const hashes = chains[number % 20] ?? none
        const event = removed(hashes, Math.floor(number / 20))
        const holder = Math.floor(step / 2000)
        expect(index.apply(holder, event)).toBe(oracle.apply(holder, event))
        if (step % 50 !== 0) continue
        checkRuns(index.device)
        index.find(hashes, found)
        oracle.find(hashes, expected)
        expect(found.device.subarray(0, holders)).toEqual(expected.device.subarray(0, holders))
      }
      expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
    },
  )

  it.each([1, 3])(
    'random removal - chains of 300 blocks on %i workers that store some of it again',
    (holders) => {
      const [index, oracle] = [
        new EventPrefixIndex({ scanFreeBlocks: 1000 }),
        new NaivePrefixIndex(),
      ]
      const chains = Array.from({ length: 12 }, (_, i) => hashesOf(1000 * i, 300))
      const both = (holder: number, event: KvEvent): void =>
        expect(index.apply(holder, event)).toBe(oracle.apply(holder, event))
      const [found, expected] = [new PrefixMatches(8), new PrefixMatches(8)]
      for (const hashes of chains) {
        for (let holder = 0; holder < holders; holder++) both(holder, stored(hashes, 0, 300))
      }
      const blocks = 3600 * holders
      for (let step = 0; step < blocks; step++) {
        const number = (step * 7919) % blocks
        const [holder, block] = [number % holders, Math.floor(number / holders)]
        const hashes = chains[block % 12] ?? none
        both(holder, removed(hashes, Math.floor(block / 12)))
        if (step % 97 === 0) both(holder, stored(hashes, 0, 1 + (step % 300)))
        if (step % 60 !== 0) continue
        checkRuns(index.device)
        index.find(hashes, found)
        oracle.find(hashes, expected)
        expect(found.device.subarray(0, holders)).toEqual(expected.device.subarray(0, holders))
        expect(index.stats().entries).toBe(oracle.stats().entries)
      }
      for (const hashes of chains) {
        for (let holder = 0; holder < holders; holder++)
          both(holder, { kind: 'removed', hashes, tier: 'device' })
      }
      checkRuns(index.device)
      expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
    },
  )

  it.each([7, 28, 100, 200, 1000])(
    'random removal - chains of %i take less than 50 bytes per block that is left, whatever part is',
    (length) => {
      const index = new EventPrefixIndex()
      const count = Math.floor(140_000 / length)
      const blocks = count * length
      const chains = Array.from({ length: count }, (_, i) => hashesOf(10_000 * i, length))
      for (const hashes of chains) index.apply(0, stored(hashes, 0, length))
      for (let step = 0; step < 0.9 * blocks; step++) {
        const number = (step * 61_879) % blocks
        index.apply(0, removed(chains[number % count] ?? none, Math.floor(number / count)))
        if (step % 1000 !== 999) continue
        const { bytes, entries } = index.stats()
        expect(entries).toBe(blocks - step - 1)
        expect(bytes / entries).toBeLessThan(50)
      }
    },
  )

  it.each([40, 20_000])(
    'short chains - rows of %i chains of a holder that has left go with the last block of another one',
    (chains) => {
      const index = new EventPrefixIndex()
      for (let chain = 0; chain < chains; chain++) {
        index.apply(0, stored(hashesOf(10 * chain, 3), 0, 3))
      }
      const last = hashesOf(10 * chains, 50)
      index.apply(1, stored(last, 0, 3))
      index.apply(1, stored(last, 3, 50))
      index.removeHolder(0)
      index.apply(1, { kind: 'removed', hashes: last.subarray(6), tier: 'device' })
      expect(index.stats().blocks, 'rows of the holder that has left').toBeGreaterThan(3)
      index.apply(1, { kind: 'removed', hashes: last.subarray(0, 6), tier: 'device' })
      expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
      checkRuns(index.device)
    },
  )

  it('short chains - a run after loose blocks stays when their last holder leaves', () => {
    const index = new EventPrefixIndex()
    const hashes = hashesOf(1, 50)
    for (const holder of [0, 1]) index.apply(holder, stored(hashes, 0, 3))
    index.apply(1, stored(hashes, 3, 50))
    index.apply(1, { kind: 'removed', hashes: hashes.subarray(0, 6), tier: 'device' })
    index.removeHolder(0)
    expect(index.stats()).toMatchObject({ entries: 47, blocks: 47 })
    checkRuns(index.device)
    index.apply(1, stored(hashes, 0, 50))
    expect(index.stats()).toMatchObject({ entries: 50, blocks: 50 })
    checkRuns(index.device)
  })

  it('random removal - the last run of many can be dissolved, which releases the memory of all runs', () => {
    const index = new EventPrefixIndex()
    const chains = Array.from({ length: 300 }, (_, i) => hashesOf(1000 * i, 40))
    for (const hashes of chains) index.apply(0, stored(hashes, 0, 40))
    for (const hashes of chains.slice(1))
      index.apply(0, { kind: 'removed', hashes, tier: 'device' })
    index.apply(0, removed(hashesOf(0, 40), 20))
    expect(index.stats()).toMatchObject({ entries: 39, blocks: 39 })
    expect(index.device.parts.blocks.runs.live).toBe(0)
    checkRuns(index.device)
  })

  it('random removal - a long chain is a run up to its first hole; what follows is loose until the hole is filled', () => {
    const index = new EventPrefixIndex()
    const { blocks, loose } = index.device.parts
    const [found, hashes] = [new PrefixMatches(2), hashesOf(1, 1000)]
    const depths = (): number[] => {
      index.find(hashes, found)
      checkRuns(index.device)
      return [found.device[0] ?? 0, found.device[1] ?? 0]
    }
    for (const holder of [0, 1]) index.apply(holder, stored(hashes, 0, 1000))
    index.apply(0, removed(hashes, 600))
    expect([...depths(), blocks.count, loose.count], 'another worker has the block').toEqual([
      600, 1000, 1000, 0,
    ])
    index.apply(1, removed(hashes, 600))
    expect([...depths(), blocks.count, loose.count]).toEqual([600, 600, 600, 399])
    index.apply(1, removed(hashes, 20))
    expect([...depths(), blocks.count, loose.count]).toEqual([600, 20, 600, 399])
    index.apply(0, stored(hashes, 600, 601))
    expect([...depths(), blocks.count, loose.count]).toEqual([1000, 20, 1000, 0])
    expect(index.stats()).toMatchObject({ entries: 1998, blocks: 1000 })
  })

  it.each([60, 300])(
    'random removal - chains of %i that branch off each other are dissolved, grow again, and give the results of the oracle',
    (length) => {
      const [index, oracle] = [new EventPrefixIndex(), new NaivePrefixIndex()]
      const trunk = hashesOf(1, length)
      const branches = [10, length / 2, length - 1].flatMap((at) =>
        [1, 2].map((number) => {
          const tail = hashesOf(10_000 * at + 1000 * number, (2 * length) / 3)
          const hashes = Uint32Array.from([...trunk.subarray(0, 2 * at + 2), ...tail])
          return { at, hashes }
        }),
      )
      const [found, expected] = [new PrefixMatches(8), new PrefixMatches(8)]
      const apply = (holder: number, event: KvEvent): void => {
        expect(index.apply(holder, event)).toBe(oracle.apply(holder, event))
      }
      const check = (): void => {
        checkRuns(index.device)
        for (const { hashes } of branches) {
          for (const each of [index, oracle]) each.find(hashes, each === index ? found : expected)
          expect(found.device.subarray(0, 3)).toEqual(expected.device.subarray(0, 3))
        }
      }
      let mostLoose = 0
      for (let round = 0; round < 3; round++) {
        for (let holder = 0; holder < 3; holder++) {
          apply(holder, stored(trunk, 0, length))
          for (const { at, hashes } of branches) {
            apply(holder, stored(hashes, at + 1, hashes.length / 2))
          }
        }
        check()
        for (let step = 0; step < 15 * length; step++) {
          const { hashes } = branches[step % 6] ?? { hashes: trunk }
          apply(step % 3, removed(hashes, (step * 37 + round) % (hashes.length / 2)))
          mostLoose = Math.max(mostLoose, index.device.parts.loose.count)
          if (step % (length / 2) === 0) check()
        }
        check()
      }
      expect(mostLoose, 'runs have been dissolved').toBeGreaterThan(0)
      for (let holder = 0; holder < 3; holder++) {
        for (const each of [index, oracle]) each.removeHolder(holder)
      }
      checkRuns(index.device)
      expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
    },
  )

  it('short events - a queried prompt becomes one run however its blocks arrive; another stays loose', () => {
    const index = new EventPrefixIndex()
    const matches = new PrefixMatches(2)
    const [asked, unasked] = [hashesOf(1, 40), hashesOf(5000, 20)]
    index.find(asked, matches)
    for (let block = 0; block < 40; block++) index.apply(0, stored(asked, block, block + 1))
    for (let block = 0; block < 20; block++) index.apply(0, stored(unasked, block, block + 1))
    expect(index.device.parts.blocks.runs.live).toBe(1)
    expect(index.device.parts.loose.count).toBe(20)
    checkRuns(index.device)
  })

  it('short events - a departed holder does not keep loose blocks alive that become part of a run', () => {
    const index = new EventPrefixIndex()
    const matches = new PrefixMatches(4)
    const hashes = hashesOf(1, 40)
    // Enough blocks remain that those of the departed holder are not cleaned up.
    for (let chain = 0; chain < 40; chain++) {
      index.apply(2, stored(hashesOf(20_000 + 1000 * chain, 20), 0, 20))
    }
    for (let block = 0; block < 30; block++) index.apply(0, stored(hashes, block, block + 1))
    for (let block = 0; block < 29; block++) index.apply(1, stored(hashes, block, block + 1))
    index.removeHolder(0)
    index.find(hashes, matches)
    expect([matches.device[0], matches.device[1]]).toEqual([0, 29])
    checkRuns(index.device)
  })
})
