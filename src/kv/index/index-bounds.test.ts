import { describe, expect, it } from 'vitest'
import { chainSequence } from '../hash/block-hash.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import type { ApplyOutcome, PrefixIndex } from '../prefix/prefix-index.ts'
import { checkRuns } from '../runs/run-invariants.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'

const none = new Uint32Array(0)

describe('EventPrefixIndex', () => {
  const store = (index: PrefixIndex, holder: number, hashes: Uint32Array): ApplyOutcome =>
    index.apply(holder, {
      kind: 'stored',
      parent: null,
      hashes,
      localHashes: none,
      tier: 'device',
    })
  const prompt = (seed: number, length: number): Uint32Array =>
    chainSequence(
      Uint32Array.from({ length: 2 * length }, (_, i) => 1000 * seed + i),
      null,
    )
  const depth = (index: PrefixIndex, hashes: Uint32Array, holder: number): number => {
    const matches = new PrefixMatches(8)
    index.find(hashes, matches)
    return matches.device[holder] ?? 0
  }

  it('capacity - the least recently used chain is evicted, an event that can never fit is rejected', () => {
    const index = new EventPrefixIndex({ blocksMax: 256 })
    expect(store(index, 0, prompt(1, 100))).toBe('applied')
    expect(store(index, 0, prompt(2, 100))).toBe('applied')
    expect(depth(index, prompt(1, 100), 0)).toBe(100)
    expect(store(index, 1, prompt(3, 70))).toBe('applied')
    expect([1, 2].map((seed) => depth(index, prompt(seed, 100), 0))).toEqual([100, 0])
    expect(index.stats()).toMatchObject({ entries: 170, blocks: 170, refused: 0, givenUp: 100 })
    checkRuns(index.device)
    expect(store(index, 1, prompt(4, 256)), 'at the limit').toBe('applied')
    expect(store(index, 1, prompt(5, 257)), 'above').toBe('capacity-exhausted')
    expect(index.stats()).toMatchObject({ entries: 256, refused: 1 })
    index.removeHolder(0)
    index.removeHolder(1)
    expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
    checkRuns(index.device)
  })

  it.each([1, 2, 3, 5, 7, 8, 9, 10, 13, 17, 20, 27, 28, 33, 64, 65])(
    'bytes - chains of %i blocks take at most 25 bytes per block',
    (length) => {
      const index = new EventPrefixIndex()
      for (let i = 0; i < 30_000 / length; i++) store(index, i % 8, prompt(i + 1, length))
      const { bytes, entries } = index.stats()
      expect(bytes / entries).toBeLessThanOrEqual(25)
      for (let holder = 0; holder < 8; holder++) index.removeHolder(holder)
      expect(index.stats().bytes, 'memory goes back').toBeLessThan(1 << 20)
    },
  )

  it.each([
    [1, [32, 33, 36, 52, 64, 65, 66, 72, 73, 81, 97, 129]],
    [2, [34, 64, 66, 74, 82, 98, 130]],
    [3, [33, 66, 69, 75, 81, 99, 132]],
    [6, [36, 60, 66, 72, 78, 102]],
    [7, [7, 14, 35, 70]],
  ])(
    'bytes - chains that grow by %i blocks take at most 25 per block at any length',
    (grow, lengths) => {
      for (const length of lengths) {
        const index = new EventPrefixIndex()
        for (let i = 0; i < 60_000 / length; i++) {
          const hashes = prompt(i + 1, length)
          for (let from = 0; from < length; from += grow) {
            const parent: [number, number] = [hashes[2 * from - 2] ?? 0, hashes[2 * from - 1] ?? 0]
            index.apply(i % 8, {
              kind: 'stored',
              parent: from === 0 ? null : parent,
              hashes: hashes.slice(2 * from, 2 * (from + grow)),
              localHashes: none,
              tier: 'device',
            })
          }
        }
        const { bytes, entries } = index.stats()
        expect(entries).toBe(length * Math.ceil(60_000 / length))
        expect(bytes / entries, `${length} blocks`).toBeLessThanOrEqual(25)
        checkRuns(index.device)
      }
    },
  )

  it.each([1, 7, 16, 40])(
    'bytes - the limit holds for chains of %i blocks, and the oldest are evicted',
    (length) => {
      const bytesMax = 1 << 19
      const index = new EventPrefixIndex({ bytesMax })
      const count = Math.ceil((4 * bytesMax) / (20 * length))
      for (let i = 0; i < count; i++) {
        expect(store(index, i % 8, prompt(i + 1, length))).toBe('applied')
      }
      const { bytes, givenUp, refused } = index.stats()
      expect(bytes).toBeLessThanOrEqual(1.1 * bytesMax)
      expect(givenUp).toBeGreaterThan(0)
      expect(refused).toBe(0)
      expect(depth(index, prompt(1, length), 0), 'the first').toBe(0)
      expect(depth(index, prompt(count, length), (count - 1) % 8), 'the last').toBe(length)
      checkRuns(index.device)
    },
  )

  it('bytes - the limit holds when chains become long and short again', () => {
    const bytesMax = 1 << 21
    const index = new EventPrefixIndex({ bytesMax })
    let seed = 0
    for (const length of [7, 300, 7, 24, 300, 10]) {
      for (let i = 0; i < (3 * bytesMax) / (20 * length); i++) {
        expect(store(index, i % 8, prompt(++seed, length))).toBe('applied')
      }
      expect(index.stats().bytes, `after chains of ${length}`).toBeLessThanOrEqual(1.1 * bytesMax)
      expect(
        depth(index, prompt(seed, length), (Math.ceil((3 * bytesMax) / (20 * length)) - 1) % 8),
      ).toBe(length)
    }
    checkRuns(index.device)
  })

  it('holders - thousands of holders of one prefix join and leave', () => {
    const index = new EventPrefixIndex()
    const head = prompt(1, 40)
    for (let holder = 0; holder < 5000; holder++) store(index, holder, head)
    const matches = new PrefixMatches(8)
    index.find(head, matches)
    expect(matches.count).toBe(5000)
    checkRuns(index.device)
    for (let holder = 0; holder < 5000; holder += 2) index.removeHolder(holder)
    index.find(head, matches)
    expect(matches.count).toBe(2500)
    expect([matches.device[0], matches.device[1]]).toEqual([0, 40])
    checkRuns(index.device)
    for (let holder = 1; holder < 5000; holder += 2) index.removeHolder(holder)
    checkRuns(index.device)
    expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
  })
})
