/**
 * Events that no correct worker sends: a block twice, blocks in another order each time, parents that were never
 * stored. The index must accept them without throwing, with correct counts, and without effect on other holders.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chainSequence } from '../hash/block-hash.ts'
import type { KvEvent, KvTier } from '../events/kv-event.ts'
import { NaivePrefixIndex } from '../prefix/naive-prefix-index.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { checkRuns } from '../runs/run-invariants.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'

const NONE = new Uint32Array(0)
const SOUND_HOLDERS = 2
const HOLDERS = 5
/** Sends local hashes and its own engine hashes. */
const NAMING = 4
const CHAIN = 150

const wild = (block: number): [number, number] => [
  Math.imul(block + 1, 0x9e3779b1) >>> 0,
  // Some hashes share a half.
  block % 7,
]
const hashesOf = (blocks: readonly number[]): Uint32Array => Uint32Array.from(blocks.flatMap(wild))
/** One chain of which the correct holders have stretches. */
const chain = chainSequence(
  Uint32Array.from({ length: 2 * CHAIN }, (_, i) => i * 2654435761),
  null,
)

const tiers = fc.constantFrom<KvTier[]>('device', 'host', 'disk')
const wildBlocks = fc.oneof(
  fc.array(fc.nat(60), { minLength: 1, maxLength: 5 }),
  // Runs that share a page.
  fc.array(fc.nat(60), { minLength: 6, maxLength: 32, size: 'max' }),
  fc.array(fc.nat(60), { minLength: 20, maxLength: 120, size: 'max' }),
)

interface Step {
  readonly holder: number
  readonly events: readonly KvEvent[]
}

const wildStep: fc.Arbitrary<Step> = fc
  .record({
    holder: fc.integer({ min: SOUND_HOLDERS, max: HOLDERS - 1 }),
    blocks: fc.array(wildBlocks, { minLength: 1, maxLength: 3 }),
    kind: fc.constantFrom('stored', 'stored', 'removed', 'cleared'),
    parent: fc.option(fc.nat(60)),
    tier: tiers,
  })
  .map(({ holder, blocks, kind, parent, tier }) => ({
    holder,
    events: blocks.map((each): KvEvent => {
      const hashes = hashesOf(each)
      if (kind === 'cleared') return { kind: 'cleared' }
      if (kind === 'removed') return { kind: 'removed', hashes, tier }
      const localHashes = holder === NAMING ? Uint32Array.from(hashes, (half) => half % 5) : NONE
      return {
        kind: 'stored',
        parent: parent === null ? null : wild(parent),
        hashes,
        localHashes,
        tier,
      }
    }),
  }))

const soundStep: fc.Arbitrary<Step> = fc
  .record({
    holder: fc.nat(SOUND_HOLDERS - 1),
    from: fc.nat(CHAIN - 1),
    count: fc.integer({ min: 1, max: CHAIN }),
    kind: fc.constantFrom('stored', 'stored', 'removed'),
  })
  .map(({ holder, from, count, kind }) => {
    const hashes = chain.slice(2 * from, 2 * (from + count))
    const parent =
      from === 0 ? null : ([chain[2 * from - 2] ?? 0, chain[2 * from - 1] ?? 0] as const)
    const event: KvEvent =
      kind === 'removed'
        ? { kind, hashes, tier: 'device' }
        : { kind: 'stored', parent, hashes, localHashes: NONE, tier: 'device' }
    return { holder, events: [event] }
  })

const steps = fc.array(fc.oneof(wildStep, soundStep), { maxLength: 60, size: 'max' })

function play(index: EventPrefixIndex, script: readonly Step[]): void {
  const matches = new PrefixMatches(HOLDERS)
  for (const { holder, events } of script) {
    index.applyAll(holder, events)
    checkRuns(index.device, false)
    for (const event of events) if (event.kind !== 'cleared') index.find(event.hashes, matches)
  }
}

function clear(index: EventPrefixIndex): void {
  for (let holder = 0; holder < HOLDERS; holder++) index.apply(holder, { kind: 'cleared' })
  checkRuns(index.device, false)
  expect(index.stats().entries).toBe(0)
}

describe('EventPrefixIndex - events of a faulty peer', () => {
  it('other holders - get the same results as without the faulty peer; removing it removes all its blocks', () => {
    fc.assert(
      fc.property(steps, fc.boolean(), (script, isDense) => {
        const index = new EventPrefixIndex({
          blocksMax: 1 << 12,
          ...(isDense ? { scanFreeBlocks: 0 } : {}),
        })
        const oracle = new NaivePrefixIndex()
        play(index, script)
        for (const { holder, events } of script) {
          if (holder >= SOUND_HOLDERS) continue
          for (const event of events) oracle.apply(holder, event)
        }
        const [found, expected] = [new PrefixMatches(HOLDERS), new PrefixMatches(HOLDERS)]
        index.find(chain, found)
        oracle.find(chain, expected)
        for (let holder = 0; holder < SOUND_HOLDERS; holder++) {
          expect(found.device[holder]).toBe(expected.device[holder])
        }
        clear(index)
      }),
      { numRuns: 150 },
    )
  })

  it('with full memory - nothing is thrown', () => {
    fc.assert(
      fc.property(steps, fc.constantFrom({ blocksMax: 64 }, { bytesMax: 20_000 }), (script, at) => {
        const index = new EventPrefixIndex(at)
        play(index, script)
        clear(index)
      }),
      { numRuns: 150 },
    )
  })

  it('a block named twice by an event - is held once', () => {
    for (const count of [1, 3, 20, 40]) {
      const index = new EventPrefixIndex()
      const blocks = Array.from({ length: count }, (_, i) => i)
      const hashes = hashesOf([...blocks, ...blocks])
      const event: KvEvent = {
        kind: 'stored',
        parent: null,
        hashes,
        localHashes: NONE,
        tier: 'device',
      }
      for (let holder = 0; holder < 3; holder++) index.apply(holder, event)
      const matches = new PrefixMatches(3)
      index.find(hashesOf(blocks), matches)
      expect([...matches.device.subarray(0, 3)]).toEqual([count, count, count])
      clear(index)
    }
  })
})
