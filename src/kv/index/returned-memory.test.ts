/** Memory of runs goes back when few of their blocks are left, although some are. */
import { describe, expect, it } from 'vitest'
import { chainSequence } from '../hash/block-hash.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { checkRuns } from '../runs/run-invariants.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'

const none = new Uint32Array(0)
const HOLDERS = 8
const BLOCKS = 140_000
const MIB = 1 << 20

const prompt = (seed: number, length: number, after: Uint32Array | null = null): Uint32Array =>
  chainSequence(
    Uint32Array.from({ length: 2 * length }, (_, i) => 2000 * seed + i),
    after === null ? null : [after.at(-2) as number, after.at(-1) as number],
  )
const store = (
  index: EventPrefixIndex,
  holder: number,
  hashes: Uint32Array,
  after: Uint32Array | null = null,
): void => {
  const parent = after === null ? null : ([after.at(-2) as number, after.at(-1) as number] as const)
  const event = { kind: 'stored', parent, hashes, localHashes: none, tier: 'device' } as const
  expect(index.apply(holder, { ...event, parent: parent === null ? null : [...parent] })).toBe(
    'applied',
  )
}
const remove = (index: EventPrefixIndex, holder: number, hashes: Uint32Array): void => {
  index.apply(holder, { kind: 'removed', hashes, tier: 'device' })
}
const depths = (index: EventPrefixIndex, hashes: Uint32Array, holders = HOLDERS): number[] => {
  const matches = new PrefixMatches(holders)
  index.find(hashes, matches)
  return Array.from({ length: holders }, (_, holder) => matches.device[holder] ?? 0)
}
const everyone = (depth: number): number[] => Array<number>(HOLDERS).fill(depth)

/** A prompt that all holders keep, with chains after it that one holder has. */
function filled(length: number, bytesMax?: number) {
  const index = new EventPrefixIndex(bytesMax === undefined ? {} : { bytesMax })
  const shared = prompt(1, 40)
  for (let holder = 0; holder < HOLDERS; holder++) store(index, holder, shared)
  const chains = Math.floor(BLOCKS / length)
  const chain = (i: number): Uint32Array => prompt(i + 2, length, shared)
  for (let i = 0; i < chains; i++) store(index, i % HOLDERS, chain(i), shared)
  return { index, shared, chains, chain }
}

describe('memory of runs', () => {
  it.each([
    [7, 'chain by chain'],
    [20, 'block by block'],
    [100, 'block by block'],
    [1000, 'chain by chain'],
  ])('chains of %i, removed %s but for a shared prompt - most goes back', (length, way) => {
    const { index, shared, chains, chain } = filled(length)
    const full = index.stats().bytes
    expect(full).toBeGreaterThan(MIB)
    for (let i = 0; i < chains; i++) {
      const hashes = chain(i)
      if (way === 'chain by chain') remove(index, i % HOLDERS, hashes)
      else {
        for (let at = hashes.length - 2; at >= 0; at -= 2) {
          remove(index, i % HOLDERS, hashes.slice(at, at + 2))
        }
      }
    }
    expect(index.stats().entries).toBe(HOLDERS * 40)
    expect(index.stats().bytes).toBeLessThan(full / 16)
    checkRuns(index.device)
    expect(depths(index, shared)).toEqual(everyone(40))
    // The prompt becomes a run again, and chains grow from it as before.
    store(index, 3, chain(0), shared)
    expect(index.device.parts.blocks.runs.live).toBeGreaterThan(0)
    const whole = Uint32Array.from([...shared, ...chain(0)])
    expect(depths(index, whole)).toEqual(everyone(40).with(3, 40 + length))
    checkRuns(index.device)
  })

  it('workers leave - the chains of the last one stay, and their memory is that of loose blocks or less', () => {
    const { index, shared, chains, chain } = filled(100)
    const kept = chains - (chains % HOLDERS)
    for (let holder = 1; holder < HOLDERS; holder++) index.removeHolder(holder)
    for (let i = HOLDERS * 3; i < kept; i += HOLDERS) remove(index, 0, chain(i))
    expect(index.stats().entries).toBe(340)
    expect(index.stats().bytes).toBeLessThan(MIB / 8)
    for (const i of [0, HOLDERS, 2 * HOLDERS]) {
      const whole = Uint32Array.from([...shared, ...chain(i)])
      expect(depths(index, whole)).toEqual(everyone(0).with(0, 140))
    }
    checkRuns(index.device)
  })

  it('a prompt of very many workers - stays a run, and all memory stays until it is gone', () => {
    const { index, shared, chains, chain } = filled(20)
    for (let holder = HOLDERS; holder < 200; holder++) store(index, holder, shared)
    for (let i = 0; i < chains; i++) remove(index, i % HOLDERS, chain(i))
    expect(index.stats().bytes).toBeGreaterThan(MIB)
    expect(depths(index, shared, 200)).toEqual(Array<number>(200).fill(40))
    for (let holder = 20; holder < 200; holder++) index.removeHolder(holder)
    for (let i = 0; i < 20; i++) store(index, i, prompt(9_000_000 + i, 10))
    expect(index.stats().bytes).toBeLessThan(MIB / 8)
    expect(depths(index, shared, 20)).toEqual(Array<number>(20).fill(40))
    checkRuns(index.device)
  })

  it('very many workers leave - the records of them go back, too, and the next ones find an empty index', () => {
    const index = new EventPrefixIndex()
    const shared = prompt(1, 40)
    const workers = 50_000
    for (let holder = 0; holder < workers; holder++) store(index, holder, shared)
    expect(index.stats().bytes).toBeGreaterThan(MIB)
    for (let holder = 0; holder < workers; holder++) index.removeHolder(holder)
    expect(index.stats()).toMatchObject({ blocks: 0, entries: 0 })
    expect(index.stats().bytes).toBeLessThan(MIB / 8)
    for (const holder of [workers - 1, 3]) store(index, holder, shared)
    remove(index, 3, shared.slice(20))
    const found = depths(index, shared, workers)
    expect([found[3], found[4], found[workers - 1]]).toEqual([10, 0, 40])
    checkRuns(index.device)
  })

  it('a full index whose chains go - nothing is evicted while memory goes back', () => {
    const { index, shared, chains, chain } = filled(20, 3 * MIB)
    for (let i = 300; i < chains; i++) remove(index, i % HOLDERS, chain(i))
    expect(index.stats().entries).toBe(HOLDERS * 40 + 300 * 20)
    for (let i = 0; i < 40_000; i++) store(index, 0, prompt(1_000_000 + i, 2))
    expect(index.stats()).toMatchObject({
      entries: HOLDERS * 40 + 300 * 20 + 80_000,
      givenUp: 0,
    })
    for (let i = 0; i < 300; i++) {
      const whole = Uint32Array.from([...shared, ...chain(i)])
      expect(depths(index, whole)).toEqual(everyone(40).with(i % HOLDERS, 60))
    }
    checkRuns(index.device)
  })
})

describe('memory of a holder that has left', () => {
  it.each([1, 7, 100])('chains of %i - goes back without further events', (length) => {
    const index = new EventPrefixIndex()
    const chains = Math.floor(BLOCKS / length)
    const own = prompt(1, 1000)
    store(index, 1, own)
    // Single blocks, too.
    store(index, 1, prompt(chains + 2, 3))
    for (let i = 0; i < chains; i++) store(index, 0, prompt(i + 2, length))
    const full = index.stats().bytes
    expect(full).toBeGreaterThan(MIB)
    index.removeHolder(0)
    expect(index.stats().entries).toBe(1003)
    for (let call = 0; call < 500; call++) index.tend()
    expect(index.stats()).toMatchObject({ entries: 1003, blocks: 1003 })
    expect(index.stats().bytes).toBeLessThan(MIB / 4)
    expect(depths(index, own, 2)).toEqual([0, 1000])
    checkRuns(index.device)
  })
})
