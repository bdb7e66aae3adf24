import { describe, expect, it } from 'vitest'
import { LooseBlocks } from './loose-blocks.ts'

const hashOf = (block: number): [number, number] => [
  Math.imul(block, 0x9e3779b1) | 0,
  Math.imul(block + 1, 0x85ebca6b) | 0,
]

/** Loose blocks of which about `blocksMax` fit into memory; each is stored by its own event. */
function create(blocksMax: number, dropped: [number, number][] = []) {
  const loose = new LooseBlocks(
    { droppedLoose: (low, high) => dropped.push([low, high]), droppedAllLoose: () => undefined },
    blocksMax,
  )
  const isHere = (block: number): boolean => loose.lookup(...hashOf(block))
  const store = (first: number, count: number, holder = 0): void => {
    for (let block = first; block < first + count; block++) {
      loose.upkeep.tick += 1
      loose.upkeep.tend()
      loose.add(Uint32Array.from(hashOf(block)), 0, 1, holder)
    }
  }
  return { loose, isHere, store }
}

describe('LooseUpkeep', () => {
  it('eviction - removes the oldest blocks, except those queried since', () => {
    const { loose, isHere, store } = create(10_000)
    store(0, 10_000)
    for (let block = 0; block < 1000; block++) {
      if (isHere(block)) loose.upkeep.renew()
    }
    while (loose.count > 6000) expect(loose.upkeep.evictOldest()).toBe(true)
    const kept = (first: number): number =>
      Array.from({ length: 1000 }, (_, i) => first + i).filter(isHere).length
    expect([kept(0), kept(1000), kept(3000), kept(6000), kept(9000)]).toEqual([
      1000, 0, 0, 1000, 1000,
    ])
  })

  it('eviction - still removes the oldest first after more ages than the ring holds', () => {
    const { loose, isHere, store } = create(4096)
    // An age has 64 blocks: this makes 625 ages.
    store(0, 40_000)
    const before = loose.upkeep.oldestTick
    while (loose.count > 8000) loose.upkeep.evictOldest()
    expect(loose.upkeep.oldestTick).toBeGreaterThan(before)
    for (let block = 36_000; block < 40_000; block++) expect(isHere(block)).toBe(true)
    for (let block = 0; block < 20_000; block++) expect(isHere(block)).toBe(false)
  })

  it('blocks of a departed holder - are cleaned up during events of others', () => {
    const { loose, isHere, store } = create(100_000)
    store(0, 20_000, 1)
    store(20_000, 1000, 2)
    loose.removeHolder(1)
    expect(loose.entries).toBe(1000)
    expect(loose.count).toBeGreaterThan(10_000)
    store(30_000, 1000, 2)
    // Up to an eighth of all owner entries may belong to ended stays.
    expect(loose.count - loose.entries).toBeLessThan(500)
    for (let block = 20_000; block < 21_000; block++) expect(isHere(block)).toBe(true)
  })

  it('the watcher of a followed block - is told when it is evicted; the last block releases all memory', () => {
    const dropped: [number, number][] = []
    const { loose, isHere, store } = create(1000, dropped)
    store(0, 500)
    expect(isHere(7)).toBe(true)
    loose.isFollowed = true
    while (loose.upkeep.evictOldest());
    expect(dropped).toEqual([hashOf(7)])
    expect([loose.count, loose.entries, loose.bytes]).toEqual([0, 0, 0])
    expect(loose.upkeep.evictOldest()).toBe(false)
  })
})
