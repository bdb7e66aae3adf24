/** Blocks that are removed one by one in no order: their removals are deferred, and nobody can tell. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hashesOf, none, removed, stored } from '../../../test/kv/chain-events.ts'
import { seededRandom } from '../../base/index.ts'
import type { KvEvent } from '../events/kv-event.ts'
import { NaivePrefixIndex } from '../prefix/naive-prefix-index.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { checkRuns } from '../runs/run-invariants.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'
import type { EventPrefixIndexOptions } from './event-prefix-index.ts'

const HOLDERS = 3
const TRUNK = 40

/** Two indexes that get the same events. */
class Pair {
  readonly index: EventPrefixIndex
  readonly oracle = new NaivePrefixIndex()
  readonly #found = new PrefixMatches(HOLDERS)
  readonly #expected = new PrefixMatches(HOLDERS)

  constructor(options: EventPrefixIndexOptions = {}) {
    this.index = new EventPrefixIndex(options)
  }

  apply(holder: number, event: KvEvent): void {
    expect(this.index.apply(holder, event)).toBe(this.oracle.apply(holder, event))
  }

  applyAll(holder: number, events: KvEvent[]): void {
    const outcomes = events.map((event) => this.oracle.apply(holder, event))
    const refused = outcomes.filter((outcome) => outcome !== 'applied').length
    expect(this.index.applyAll(holder, events)).toBe(refused)
  }

  leave(holder: number): void {
    this.index.removeHolder(holder)
    this.oracle.removeHolder(holder)
  }

  compare(hashes: Uint32Array): void {
    this.index.find(hashes, this.#found)
    this.oracle.find(hashes, this.#expected)
    expect(listed(this.#found)).toEqual(listed(this.#expected))
  }

  compareEntries(): void {
    expect(this.index.stats().entries).toBe(this.oracle.stats().entries)
  }
}

const listed = (matches: PrefixMatches): string[] =>
  Array.from(matches.holders.subarray(0, matches.count), (holder) => {
    return `${holder}: ${matches.device[holder]} + ${matches.host[holder]}`
  }).sort()

/** Chains of one length; every second one branches off a trunk that they share. */
function chainsOf(length: number, count: number): Uint32Array[] {
  const trunk = hashesOf(9_000_000, TRUNK)
  return Array.from({ length: count }, (_, i) => {
    const own = hashesOf(10_000 * i, length)
    return i % 2 === 0 ? own : Uint32Array.from([...trunk.subarray(0, 20 + 4 * (i % 11)), ...own])
  })
}

const step = fc.record({
  kind: fc.integer({ min: 0, max: 99 }),
  holder: fc.nat(HOLDERS - 1),
  chain: fc.nat(10_000),
  from: fc.nat(10_000),
  count: fc.integer({ min: 1, max: 60 }),
})
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

function play(pair: Pair, chains: Uint32Array[], { kind, holder, chain, from, count }: Step): void {
  const hashes = chains[chain % chains.length] ?? none
  const length = hashes.length >> 1
  const at = from % length
  const to = Math.min(length, at + count)
  if (kind < 4) pair.apply(holder, removed(hashes, at, to))
  else if (kind < 12) pair.apply(holder, stored(hashes, 0, to, 'device'))
  else if (kind < 20) pair.apply(holder, stored(hashes, at, to, 'device'))
  else if (kind < 22) pair.apply(holder, stored(hashes, at, to, 'host'))
  else if (kind === 22) pair.leave(holder)
  else if (kind < 28) {
    // Grows a chain block by block; the last blocks were removed before they were stored.
    pair.apply(holder, removed(hashes, Math.min(length - 1, at + 2), Math.min(length, at + 4)))
    for (let i = at; i < Math.min(length, at + 5); i++) {
      pair.apply(holder, stored(hashes, i, i + 1, 'device'))
    }
  } else if (kind === 28) {
    const event = removed(hashesOf(77_000_000 + chain, 1), 0, 1)
    pair.applyAll(holder, [event, removed(hashes, at, at + 1), event])
  } else if (kind < 40) pair.compare(hashes)
  else {
    // Several, in an order that is none, of one message or of one each.
    const events = Array.from({ length: Math.min(30, count) }, (_, i) => {
      const other = chains[(chain + 7 * i) % chains.length] ?? none
      const block = (from + 13 * i) % (other.length >> 1)
      return removed(other, block, block + 1)
    })
    if (kind < 50) pair.applyAll(holder, events)
    else for (const event of events) pair.apply(holder, event)
  }
}

describe('removals in no order', () => {
  it.each([
    [3, 300],
    [7, 150],
    [20, 60],
    [100, 20],
    [300, 8],
  ])(
    'chains of %i - after any events the index gives the results of the oracle',
    (length, count) => {
      const chains = chainsOf(length, count)
      fc.assert(
        fc.property(
          fc.array(step, { minLength: 60, maxLength: 250, size: 'max' }),
          fc.constantFrom(-1e9, 1 << 18),
          fc.constantFrom(1, 40, 512),
          (steps, scanFreeBlocks, passPartBlocks) => {
            const pair = new Pair({ scanFreeBlocks, passPartBlocks })
            for (let holder = 0; holder < HOLDERS; holder++) {
              chains.forEach((hashes, i) => {
                const length = hashes.length >> 1
                const to = i % HOLDERS === holder ? Math.ceil(length / 2) : length
                if ((i + 1) % HOLDERS !== holder)
                  pair.apply(holder, stored(hashes, 0, to, 'device'))
              })
            }
            steps.forEach((each, i) => {
              play(pair, chains, each)
              if (i % 20 === 0) checkRuns(pair.index.device)
              if (i % 50 === 49) pair.compareEntries()
            })
            for (const hashes of chains) pair.compare(hashes)
            pair.compareEntries()
            checkRuns(pair.index.device)
            for (let holder = 0; holder < HOLDERS; holder++) pair.leave(holder)
            expect(pair.index.device.parts.deferred.isInUse).toBe(false)
            expect(pair.index.stats()).toMatchObject({ entries: 0, blocks: 0 })
          },
        ),
        { numRuns: Number(process.env['BATON_FUZZ_RUNS'] ?? 12) },
      )
    },
  )

  it.each([
    [1, 512],
    [3, 512],
    [1, 1],
    [3, 1],
  ])(
    'chains of 300 on %i workers that store some of it again until all is gone; passes in parts of %i blocks',
    (holders, passPartBlocks) => {
      const pair = new Pair({ scanFreeBlocks: 1000, passPartBlocks })
      const chains = Array.from({ length: 12 }, (_, i) => hashesOf(1000 * i, 300))
      for (const hashes of chains) {
        for (let holder = 0; holder < holders; holder++) {
          pair.apply(holder, stored(hashes, 0, 300, 'device'))
        }
      }
      const blocks = 3600 * holders
      for (let step = 0; step < blocks; step++) {
        const number = (step * 7919) % blocks
        const [holder, block] = [number % holders, Math.floor(number / holders)]
        const hashes = chains[block % 12] ?? none
        const at = Math.floor(block / 12)
        pair.apply(holder, removed(hashes, at, at + 1))
        if (step % 97 === 0) pair.apply(holder, stored(hashes, 0, 1 + (step % 300), 'device'))
        if (step % 60 !== 0) continue
        pair.compare(hashes)
        checkRuns(pair.index.device)
        if (step % 240 === 0) pair.compareEntries()
      }
      for (const hashes of chains) {
        for (let holder = 0; holder < holders; holder++) pair.apply(holder, removed(hashes, 0, 300))
      }
      expect(pair.index.stats()).toMatchObject({ entries: 0, blocks: 0 })
      checkRuns(pair.index.device)
    },
  )

  it.each([7, 20, 50, 100, 1000])(
    'chains of %i that are removed by events of several blocks in no order - lose each of them',
    (length) => {
      const count = Math.ceil(4000 / length)
      const blocks = count * length
      const chains = Array.from({ length: count }, (_, i) => hashesOf(10_000 * i, length))
      // Some runs must end before others, so the order may not be a regular one.
      const random = seededRandom(length)
      const keys = Array.from({ length: blocks }, () => random.next())
      const order = [...keys.keys()].sort((a, b) => (keys[a] as number) - (keys[b] as number))
      for (let round = 0; round < 30; round++) {
        const index = new EventPrefixIndex()
        for (const hashes of chains) index.apply(0, stored(hashes, 0, length, 'device'))
        const blocksEach = 2 + 7 * round
        for (let step = 0; step < blocks; step += blocksEach) {
          const removals = Array.from({ length: Math.min(blocksEach, blocks - step) }, (_, i) => {
            const number = order[step + i] as number
            const at = Math.floor(number / count)
            return removed(chains[number % count] ?? none, at, at + 1)
          })
          index.applyAll(0, removals)
        }
        expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
        checkRuns(index.device)
      }
    },
  )

  it.each([60, 300])(
    'chains of %i that branch off each other are dissolved, grow again, and give the results of the oracle',
    (length) => {
      const pair = new Pair()
      const trunk = hashesOf(1, length)
      const branches = [10, length / 2, length - 1].flatMap((at) =>
        [1, 2].map((number) => {
          const tail = hashesOf(10_000 * at + 1000 * number, (2 * length) / 3)
          return { at, hashes: Uint32Array.from([...trunk.subarray(0, 2 * at + 2), ...tail]) }
        }),
      )
      const check = (): void => {
        for (const { hashes } of branches) pair.compare(hashes)
        checkRuns(pair.index.device)
      }
      const { loose } = pair.index.device.parts
      let mostLoose = 0
      for (let round = 0; round < 3; round++) {
        for (let holder = 0; holder < HOLDERS; holder++) {
          pair.apply(holder, stored(trunk, 0, length, 'device'))
          for (const { at, hashes } of branches) {
            pair.apply(holder, stored(hashes, at + 1, hashes.length / 2, 'device'))
          }
        }
        check()
        for (let step = 0; step < 40 * length; step++) {
          const { hashes } = branches[step % 6] ?? { hashes: trunk }
          const at = (Math.imul(step + round, 0x9e3779b1) >>> 8) % (hashes.length / 2)
          pair.apply(Math.floor(step / 6) % HOLDERS, removed(hashes, at, at + 1))
          mostLoose = Math.max(mostLoose, loose.count)
          if (step % (length / 2) === 0) check()
          if (step % (2 * length) === 0) pair.compareEntries()
        }
        check()
      }
      expect(mostLoose, 'runs have been dissolved').toBeGreaterThan(0)
      for (let holder = 0; holder < HOLDERS; holder++) pair.leave(holder)
      expect(pair.index.stats()).toMatchObject({ entries: 0, blocks: 0 })
    },
  )

  it('a long chain with holes stays a run; it ends at a hole for each worker until that is filled', () => {
    const index = new EventPrefixIndex()
    const { blocks, loose } = index.device.parts
    const [found, hashes] = [new PrefixMatches(2), hashesOf(1, 1000)]
    const depths = (): number[] => {
      index.find(hashes, found)
      checkRuns(index.device)
      return [found.device[0] ?? 0, found.device[1] ?? 0]
    }
    for (const holder of [0, 1]) index.apply(holder, stored(hashes, 0, 1000, 'device'))
    index.apply(0, removed(hashes, 600, 601))
    expect(depths()).toEqual([600, 1000])
    index.apply(1, removed(hashes, 600, 601))
    index.apply(1, removed(hashes, 20, 21))
    expect(depths()).toEqual([600, 20])
    expect(index.stats()).toMatchObject({ entries: 1997 })
    expect(depths()).toEqual([600, 20])
    index.apply(0, stored(hashes, 600, 601, 'device'))
    expect([...depths(), blocks.runs.live, blocks.count, loose.count]).toEqual([
      1000, 20, 1, 1000, 0,
    ])
    expect(index.stats()).toMatchObject({ entries: 1998, blocks: 1000 })
  })

  it('a block that is removed before it is stored - is held when its chain has grown to it', () => {
    const index = new EventPrefixIndex()
    const matches = new PrefixMatches(2)
    const [other, hashes] = [hashesOf(1, 100), hashesOf(50_000, 60)]
    index.apply(0, stored(other, 0, 100, 'device'))
    for (const at of [40, 50]) index.apply(0, removed(hashes, at, at + 1))
    expect(index.device.parts.deferred.count).toBe(2)
    index.apply(0, stored(hashes, 0, 40, 'device'))
    // At the end of the last event, and as a new branch.
    index.apply(0, stored(hashes, 40, 45, 'device'))
    index.apply(0, stored(other, 0, 100, 'device'))
    index.apply(0, stored(hashes, 45, 60, 'device'))
    expect(index.device.parts.deferred.count).toBe(0)
    expect(index.stats()).toMatchObject({ entries: 160, blocks: 160 })
    index.find(hashes, matches)
    expect(matches.device[0]).toBe(60)
  })
})
