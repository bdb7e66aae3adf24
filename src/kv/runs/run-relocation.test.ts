import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../base/index.ts'
import { chainSequence } from '../hash/block-hash.ts'
import { EventPrefixIndex } from '../index/event-prefix-index.ts'
import type { KvEvent } from '../events/kv-event.ts'
import { NaivePrefixIndex } from '../prefix/naive-prefix-index.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { checkRuns } from './run-invariants.ts'

const none = new Uint32Array(0)

const chain = (seed: number, length: number): Uint32Array =>
  chainSequence(
    Uint32Array.from({ length: 2 * length }, (_, i) => 1000 * seed + i),
    null,
  )

const stored = (hashes: Uint32Array, from: number, to: number): KvEvent => ({
  kind: 'stored',
  parent: from === 0 ? null : [hashes[2 * from - 2] as number, hashes[2 * from - 1] as number],
  hashes: hashes.slice(2 * from, 2 * to),
  localHashes: none,
  tier: 'device',
})

describe('RunRelocation', () => {
  it('growth by short events - the chain stays one run, at most 25 bytes per block at any length', () => {
    const chains = Array.from({ length: 1000 }, (_, i) => chain(i + 1, 72))
    const index = new EventPrefixIndex()
    const growAll = (from: number, to: number): void =>
      chains.forEach((hashes, i) => {
        if (index.apply(i % 8, stored(hashes, from, to)) !== 'applied') throw new Error('refused')
      })
    growAll(0, 7)
    for (let length = 7; length < 72; length++) {
      growAll(length, length + 1)
      const { bytes, entries } = index.stats()
      expect(bytes / entries, `bytes of ${length + 1} blocks`).toBeLessThanOrEqual(25)
      expect(index.device.parts.blocks.runs.live, `runs of ${length + 1} blocks`).toBe(1000)
    }
    checkRuns(index.device)
    expect(index.device.scans, 'every end was known').toBe(0)
  })

  it('growth by one holder - the end of another one is still known', () => {
    const index = new EventPrefixIndex()
    const hashes = chain(1, 40)
    const apply = (holder: number, from: number, to: number): void =>
      expect(index.apply(holder, stored(hashes, from, to))).toBe('applied')
    apply(0, 0, 7)
    apply(1, 0, 7)
    // The end of holder 0 is only remembered by its position, and holder 1 moves the run.
    apply(0, 7, 8)
    apply(1, 7, 20)
    apply(0, 8, 9)
    expect(index.device.scans).toBe(0)
    const matches = new PrefixMatches(2)
    index.find(hashes, matches)
    expect([...matches.device.subarray(0, 2)]).toEqual([9, 20])
    checkRuns(index.device)
  })

  it('growth of chains that branch, with several holders - gives the results of the oracle', () => {
    for (let seed = 1; seed <= 12; seed++) {
      const random = seededRandom(seed)
      const below = (limit: number): number => Math.floor(random.next() * limit)
      const [index, oracle] = [new EventPrefixIndex(), new NaivePrefixIndex()]
      const chains: Uint32Array[] = []
      for (let i = 0; i < 6; i++) {
        const local = Uint32Array.from({ length: 200 }, (_, k) => 1000 * i + k)
        // Each chain begins like an earlier one.
        const kept = i === 0 ? 0 : below(60)
        const other = chains[below(i)] ?? none
        const parent = [other[2 * kept - 2] ?? 0, other[2 * kept - 1] ?? 0] as const
        const rest = chainSequence(local.subarray(2 * kept), kept === 0 ? null : parent)
        chains.push(Uint32Array.from([...other.subarray(0, 2 * kept), ...rest]))
      }
      const lengths = chains.map(() => [0, 0, 0])
      const [found, expected] = [new PrefixMatches(3), new PrefixMatches(3)]
      for (let step = 0; step < 150; step++) {
        const number = below(chains.length)
        const hashes = chains[number] as Uint32Array
        const holder = below(3)
        const held = lengths[number] as number[]
        const from = held[holder] as number
        const isRemoved = below(5) === 0
        const to = isRemoved
          ? Math.max(0, from - 1 - below(12))
          : Math.min(100, from + 1 + below(12))
        held[holder] = to
        const event: KvEvent = isRemoved
          ? { kind: 'removed', hashes: hashes.slice(2 * to, 2 * from), tier: 'device' }
          : stored(hashes, from, to)
        if (from !== to) expect(index.apply(holder, event)).toBe(oracle.apply(holder, event))
        if (step % 5 !== 0) continue
        checkRuns(index.device)
        for (const each of chains) {
          index.find(each, found)
          oracle.find(each, expected)
          expect(found.device.subarray(0, 3)).toEqual(expected.device.subarray(0, 3))
        }
      }
    }
  })
})
