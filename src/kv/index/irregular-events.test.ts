import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import { chainSequence } from '../hash/block-hash.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'
import { HolderTable } from './holder-table.ts'
import type { KvEvent, KvTier } from '../events/kv-event.ts'
import { NaivePrefixIndex } from '../prefix/naive-prefix-index.ts'
import type { ApplyOutcome, PrefixIndex } from '../prefix/prefix-index.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { checkRuns } from '../runs/run-invariants.ts'

const none = new Uint32Array(0)
const local = (...blocks: number[]): Uint32Array =>
  Uint32Array.from(blocks.flatMap((block) => [block, 1]))
const chain = (...blocks: number[]): Uint32Array => chainSequence(local(...blocks), null)

/** One chain 1 … n, and events over stretches of it, by block index from 0. */
class Chain {
  readonly hashes: Uint32Array
  readonly index: PrefixIndex

  constructor(index: PrefixIndex, length = 8) {
    this.index = index
    this.hashes = chain(...Array.from({ length }, (_, i) => i + 1))
  }

  store(holder: number, from: number, to: number, tier: KvTier = 'device'): ApplyOutcome {
    const parent = [this.hashes[2 * from - 2] ?? 0, this.hashes[2 * from - 1] ?? 0] as const
    return this.index.apply(holder, {
      kind: 'stored',
      parent: from === 0 ? null : parent,
      hashes: this.hashes.slice(2 * from, 2 * to),
      localHashes: none,
      tier,
    })
  }

  remove(holder: number, from: number, to: number, tier: KvTier = 'device'): ApplyOutcome {
    const hashes = this.hashes.slice(2 * from, 2 * to)
    return this.index.apply(holder, { kind: 'removed', hashes, tier })
  }

  depths(holder: number): [number, number, number] {
    const matches = new PrefixMatches(8)
    this.index.find(this.hashes, matches)
    return [matches.device[holder] ?? 0, matches.host[holder] ?? 0, matches.disk[holder] ?? 0]
  }
}

const IMPLEMENTATIONS: readonly [string, () => PrefixIndex][] = [
  ['EventPrefixIndex', () => new EventPrefixIndex({ blocksMax: 4096 })],
  ['NaivePrefixIndex', () => new NaivePrefixIndex()],
]

describe.each(IMPLEMENTATIONS)('irregular events of %s', (_name, create) => {
  it('unknown parent - the store is rejected and nothing changes', () => {
    const c = new Chain(create())
    expect(c.store(0, 2, 5)).toBe('parent-not-found')
    expect(c.store(0, 0, 2)).toBe('applied')
    expect(c.store(1, 2, 5), "another holder's parent").toBe('parent-not-found')
    expect(c.index.stats()).toMatchObject({ entries: 2, refused: 2 })
  })

  it('unknown parent - lower tiers accept blocks in any order', () => {
    const c = new Chain(create())
    expect(c.store(0, 3, 5, 'host')).toBe('applied')
    expect(c.depths(0)).toEqual([0, 0, 0])
    expect(c.store(0, 0, 3)).toBe('applied')
    expect(c.depths(0)).toEqual([3, 2, 0])
    c.store(0, 5, 8, 'disk')
    expect(c.depths(0)).toEqual([3, 2, 3])
    c.remove(0, 3, 4, 'host')
    expect(c.depths(0)).toEqual([3, 0, 0])
  })

  it('unknown parent - blocks that another holder has are stored once, whatever is stored before them', () => {
    const c = new Chain(create(), 49)
    c.store(1, 0, 32, 'host')
    c.remove(1, 8, 9, 'host')
    expect(c.store(0, 9, 31, 'host')).toBe('applied')
    c.store(0, 0, 49, 'host')
    expect(c.index.stats()).toMatchObject({ entries: 31 + 49, blocks: 49 })
    c.remove(0, 20, 21, 'host')
    expect(c.depths(0)).toEqual([0, 20, 0])
    for (const holder of [0, 1]) c.remove(holder, 0, 49, 'host')
    expect(c.index.stats()).toMatchObject({ entries: 0, blocks: 0 })
  })

  it('tiers - a block that is also on the device counts as device block', () => {
    const c = new Chain(create())
    c.store(0, 0, 3)
    c.store(0, 0, 5, 'host')
    c.store(0, 1, 7, 'disk')
    expect(c.depths(0)).toEqual([3, 2, 2])
  })

  it('removal in the middle - leaves a hole; the blocks after it count again once it is filled', () => {
    const c = new Chain(create())
    c.store(0, 0, 8)
    expect(c.remove(0, 3, 5)).toBe('applied')
    expect(c.depths(0)).toEqual([3, 0, 0])
    expect(c.store(0, 3, 5)).toBe('applied')
    expect(c.depths(0)).toEqual([8, 0, 0])
  })

  it('removal from the front - the rest stays and counts again once the front is stored again', () => {
    const c = new Chain(create())
    c.store(0, 0, 8)
    c.remove(0, 0, 6)
    expect(c.depths(0)).toEqual([0, 0, 0])
    expect(c.index.stats()).toMatchObject({ entries: 2, blocks: 2 })
    c.store(0, 0, 6)
    expect(c.depths(0)).toEqual([8, 0, 0])
    expect(c.index.stats()).toMatchObject({ entries: 8, blocks: 8 })
  })

  it('removal of blocks that are not held - is ignored, the rest of the event is applied', () => {
    const c = new Chain(create())
    c.store(0, 0, 4)
    expect(c.remove(0, 2, 8)).toBe('applied')
    expect(c.remove(1, 0, 1)).toBe('applied')
    expect(c.depths(0)).toEqual([2, 0, 0])
  })

  it('removal in any order - a block named twice is not held the second time', () => {
    const c = new Chain(create())
    c.store(0, 0, 8)
    c.store(1, 0, 8)
    const remove = (...blocks: number[]): ApplyOutcome => {
      const words = blocks.flatMap((i) => [c.hashes[2 * i] ?? 0, c.hashes[2 * i + 1] ?? 0])
      return c.index.apply(0, { kind: 'removed', hashes: Uint32Array.from(words), tier: 'device' })
    }
    expect(remove(5, 7, 6)).toBe('applied')
    expect(remove(2, 4, 3, 4)).toBe('applied')
    expect([c.depths(0), c.depths(1)]).toEqual([
      [2, 0, 0],
      [8, 0, 0],
    ])
    expect(c.index.stats().entries).toBe(10)
  })

  it('a block that is its own parent, or lists of different lengths - rejected', () => {
    const c = new Chain(create())
    c.store(0, 0, 2)
    const parent = [c.hashes[2] ?? 0, c.hashes[3] ?? 0] as const
    const event = { kind: 'stored', parent, tier: 'device' } as const
    const own = c.hashes.slice(2, 4)
    expect(c.index.apply(0, { ...event, hashes: own, localHashes: none })).toBe('invalid')
    const hashes = c.hashes.slice(4, 8)
    expect(c.index.apply(0, { ...event, hashes, localHashes: local(3) })).toBe('invalid')
    expect(c.index.stats()).toMatchObject({ entries: 2, refused: 2 })
  })

  it('cleared - removes all tiers of that holder and no other', () => {
    const c = new Chain(create())
    for (const holder of [0, 1]) {
      c.store(holder, 0, 3)
      c.store(holder, 3, 5, 'host')
    }
    c.index.apply(0, { kind: 'cleared' })
    expect(c.depths(0)).toEqual([0, 0, 0])
    expect(c.depths(1)).toEqual([3, 2, 0])
  })

  it('engine hashes - two engines name the same blocks, each extends and removes by its own hashes', () => {
    const index = create()
    const stored = (holder: number, parent: number | null, names: number[], blocks: number[]) =>
      index.apply(holder, {
        kind: 'stored',
        parent: parent === null ? null : [parent, 0],
        hashes: Uint32Array.from(names.flatMap((name) => [name, 0])),
        localHashes: local(...blocks),
        tier: 'device',
      })
    const depths = (...blocks: number[]): number[] => {
      const matches = new PrefixMatches(2)
      index.find(chain(...blocks), matches)
      return [matches.device[0] ?? 0, matches.device[1] ?? 0]
    }
    expect(stored(0, null, [101, 102], [1, 2])).toBe('applied')
    expect(stored(1, null, [901, 902], [1, 2])).toBe('applied')
    expect(stored(1, 902, [903], [7])).toBe('applied')
    expect(stored(1, 102, [904], [8])).toBe('parent-not-found')
    expect(depths(1, 2, 7)).toEqual([2, 3])
    const gone = Uint32Array.of(903, 0, 902, 0)
    expect(index.apply(1, { kind: 'removed', hashes: gone, tier: 'device' })).toBe('applied')
    expect(depths(1, 2, 7)).toEqual([2, 1])
    expect(stored(1, 902, [903], [7]), 'the name went with the block').toBe('parent-not-found')
  })
})

describe('EventPrefixIndex', () => {
  it('anchors - blocks of a prompt that was never queried are found by search, then anchored', () => {
    const index = new EventPrefixIndex({ blocksMax: 4096 })
    const c = new Chain(index, 100)
    c.store(0, 0, 100)
    expect(c.remove(0, 50, 100)).toBe('applied')
    expect(c.store(0, 50, 60)).toBe('applied')
    expect(index.device.scans, 'the events name an end of what is held').toBe(0)
    expect(c.store(0, 20, 30)).toBe('applied')
    expect(index.device.scans).toBe(1)
    expect(c.store(0, 20, 30)).toBe('applied')
    expect(index.device.scans, 'anchored').toBe(1)
    expect(c.store(1, 3, 4)).toBe('parent-not-found')
    expect(index.device.scans, 'who holds nothing needs no search').toBe(1)
    expect(c.remove(0, 40, 45)).toBe('applied')
    expect(index.device.scans, 'removals are deferred instead').toBe(1)
  })

  it('anchors - many unknown hashes cost one lookup each', () => {
    const index = new EventPrefixIndex({ blocksMax: 4096, scanFreeBlocks: 0 })
    const c = new Chain(index, 300)
    c.store(0, 0, 300)
    for (let i = 0; i < 100; i++) {
      const [parent, hashes] = [[9000 + i, 1] as const, chain(5000 + i)]
      const event: KvEvent = {
        kind: 'stored',
        parent: [...parent],
        hashes,
        localHashes: none,
        tier: 'device',
      }
      expect(index.apply(0, event)).toBe('parent-not-found')
    }
    expect(index.device.scans, '16 blocks may be looked through for each stored one').toBe(16)
    checkRuns(index.device)
  })

  it('anchors - the end of a holding is anchored where a store leaves an existing run', () => {
    const index = new EventPrefixIndex({ blocksMax: 4096 })
    const head = Array.from({ length: 50 }, (_, i) => i)
    const store = (...tail: number[]): Uint32Array => {
      const hashes = chain(...head, ...tail)
      index.apply(0, { kind: 'stored', parent: null, hashes, localHashes: none, tier: 'device' })
      return hashes
    }
    const [first, second] = [store(100, 101, 102), store(200, 201)]
    const evict = (from: Uint32Array, ...blocks: number[]): void => {
      const hashes = Uint32Array.from(
        blocks.flatMap((i) => [from[2 * i] ?? 0, from[2 * i + 1] ?? 0]),
      )
      expect(index.apply(0, { kind: 'removed', hashes, tier: 'device' })).toBe('applied')
    }
    evict(second, 51, 50)
    evict(first, 52, 51, 50)
    evict(first, 49, 48)
    expect(index.device.scans).toBe(0)
    checkRuns(index.device)
  })

  it('anchors - an event in any order finds ends of chains by their anchors; the rest is deferred', () => {
    const index = new EventPrefixIndex({ blocksMax: 4096 })
    const all = Array.from({ length: 5 }, (_, c) => {
      const hashes = chain(...Array.from({ length: 60 }, (_, i) => 100 * c + i))
      index.apply(0, { kind: 'stored', parent: null, hashes, localHashes: none, tier: 'device' })
      return hashes
    })
    /** Some of the blocks of all chains, from an offset on. */
    const evict = (from: number, length: number, count: number): ApplyOutcome => {
      const hashes = Uint32Array.from({ length: 2 * count }, (_, word) => {
        const block = ((word >> 1) * 77 + 13) % (5 * length)
        return all[block % 5]?.[2 * (from + Math.floor(block / 5)) + (word & 1)] ?? 0
      })
      return index.apply(0, { kind: 'removed', hashes, tier: 'device' })
    }
    expect(evict(40, 20, 100)).toBe('applied')
    expect(index.device.parts.deferred.count).toBe(0)
    expect(evict(0, 40, 150)).toBe('applied')
    expect(index.device.scans).toBe(0)
    expect(index.stats().entries).toBe(50)
    expect(index.device.parts.deferred.count).toBe(0)
    checkRuns(index.device)
    expect(evict(0, 40, 200)).toBe('applied')
    expect(index.stats().entries).toBe(0)
    checkRuns(index.device)
  })

  it('anchors - after too many searches new runs are dense from the start', () => {
    const index = new EventPrefixIndex({ blocksMax: 4096, scanFreeBlocks: -1e9 })
    const c = new Chain(index, 300)
    c.store(0, 0, 300)
    expect(index.device.parts.blocks.anchors.count).toBe(300)
    expect(c.remove(0, 100, 101)).toBe('applied')
    expect(index.device.scans).toBe(0)
    checkRuns(index.device)
  })

  it('anchors - many unknown parents are soon not searched for any more', () => {
    const index = new EventPrefixIndex({ scanFreeBlocks: 0 })
    const [chains, blocks] = [1000, 100]
    for (let c = 0; c < chains; c++) {
      const hashes = Uint32Array.from({ length: 2 * blocks }, (_, i) =>
        Math.imul(2 * blocks * c + i + 1, 0x9e3779b1),
      )
      index.apply(0, { kind: 'stored', parent: null, hashes, localHashes: none, tier: 'device' })
    }
    for (let i = 0; i < 400; i++) {
      const event = { kind: 'stored', hashes: chain(i), localHashes: none, tier: 'device' } as const
      expect(index.apply(0, { ...event, parent: [i, 12_345] })).not.toBe('applied')
    }
    // 16 are free; each of the others makes a sixteenth of the blocks dense.
    expect(index.device.scans).toBeLessThan(120)
    checkRuns(index.device)
  })

  it('anchors - a sequence that grows block by block has few anchors', () => {
    const index = new EventPrefixIndex({ blocksMax: 4096 })
    const c = new Chain(index, 500)
    for (let i = 0; i < 500; i++) expect(c.store(0, i, i + 1)).toBe('applied')
    expect(index.device.parts.blocks.anchors.count).toBeLessThanOrEqual(2)
    expect(index.device.parts.blocks.runs.live).toBe(1)
    expect(index.device.scans).toBe(0)
  })

  it('memory - is released after many chains were stored and removed', () => {
    const index = new EventPrefixIndex({ blocksMax: 1 << 14 })
    let bytes = 0
    for (let round = 0; round < 30; round++) {
      for (let holder = 0; holder < 20; holder++) {
        const hashes = chain(1, holder + 2, round + 100, ...Array.from({ length: 60 }, (_, i) => i))
        index.apply(holder, {
          kind: 'stored',
          parent: null,
          hashes,
          localHashes: none,
          tier: 'device',
        })
        if (round % 2 === 1) index.removeHolder(holder)
      }
      if (round === 9) bytes = index.stats().bytes
    }
    expect(index.stats().bytes).toBeLessThanOrEqual(bytes * 1.1)
    for (let holder = 0; holder < 20; holder++) index.removeHolder(holder)
    checkRuns(index.device)
  })
})

describe('HolderTable', () => {
  it('HolderTable - numbers are dense, the lowest free one is reused first', () => {
    const table = new HolderTable()
    const [a, b] = [workerIdOf(7), workerIdOf(9)]
    expect([table.intern(a, 0), table.intern(a, 1), table.intern(b, 0)]).toEqual([0, 1, 2])
    expect(table.intern(a, 1)).toBe(1)
    expect(table.ofWorker(a)).toEqual([0, 1])
    table.release(2)
    table.release(0)
    expect([table.numberOf(a, 0), table.workerOf(0), table.rankOf(1)]).toEqual([-1, undefined, 1])
    expect([table.intern(b, 3), table.intern(b, 4), table.intern(b, 5)]).toEqual([0, 2, 3])
    expect(table.size).toBe(4)
    expect(() => {
      table.release(9)
    }).toThrow(/not in use/)
  })
})

it('a query that ends at a loose block of workers without the prefix - makes no run', () => {
  const index = new EventPrefixIndex({ blocksMax: 4096 })
  const c = new Chain(index)
  const branch = chain(1, 2, 3, 4, 5, 6, 7, 100)
  c.store(99, 0, 8)
  for (let holder = 0; holder < 40; holder++) {
    index.apply(holder, {
      kind: 'stored',
      parent: null,
      hashes: branch,
      localHashes: none,
      tier: 'device',
    })
    c.remove(holder, 0, 7)
  }
  const { blocks, loose } = index.device.parts
  expect([blocks.runs.live, loose.count]).toEqual([1, 1])
  const matches = new PrefixMatches(8)
  index.find(branch, matches)
  expect(matches.device[99]).toBe(7)
  expect([blocks.runs.live, loose.count]).toEqual([1, 1])
  checkRuns(index.device)
})
