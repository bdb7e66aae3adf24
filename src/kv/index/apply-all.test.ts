import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { KvEvent } from '../events/kv-event.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { checkRuns } from '../runs/run-invariants.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'

const HOLDERS = 3
/** More loose blocks and anchors than fit into the CPU cache, so that `touch` is used. */
const CHAINS = 6000
const CHAIN_BLOCKS = 3
const LONG_CHAINS = 60
const LONG_BLOCKS = 200

const low = (block: number): number => Math.imul(block + 1, 0x9e3779b1) >>> 0
const high = (block: number): number => Math.imul(block + 1, 0x85ebca6b) >>> 0

function hashesOf(first: number, count: number): Uint32Array {
  return Uint32Array.from({ length: 2 * count }, (_, i) => {
    const block = first + (i >> 1)
    return (i & 1) === 0 ? low(block) : high(block)
  })
}

function stored(first: number, count: number, isAfter = false): KvEvent {
  const parent = isAfter ? ([low(first - 1), high(first - 1)] as const) : null
  const localHashes = new Uint32Array(0)
  return { kind: 'stored', parent, hashes: hashesOf(first, count), localHashes, tier: 'device' }
}

const removed = (first: number, count: number): KvEvent => {
  return { kind: 'removed', hashes: hashesOf(first, count), tier: 'device' }
}

const LOOSE = CHAINS * CHAIN_BLOCKS
const BLOCKS = LOOSE + LONG_CHAINS * LONG_BLOCKS

/** Loose blocks, and long dense chains. */
function filled(): EventPrefixIndex {
  const index = new EventPrefixIndex({ scanFreeBlocks: 0 })
  for (let chain = 0; chain < CHAINS; chain++) {
    index.apply(chain % HOLDERS, stored(chain * CHAIN_BLOCKS, CHAIN_BLOCKS))
  }
  for (let chain = 0; chain < LONG_CHAINS; chain++) {
    const first = LOOSE + chain * LONG_BLOCKS
    index.apply(chain % HOLDERS, stored(first, LONG_BLOCKS))
    // A parent in the middle has to be searched for, which makes the holder's runs dense.
    index.apply(chain % HOLDERS, stored(first + 180, 1, true))
    index.apply(chain % HOLDERS, removed(first + 180, 1))
  }
  return index
}

/** Not memory, nor blocks without a holder: both depend on when removals are made. */
function counts(index: EventPrefixIndex): number[] {
  const { entries, givenUp, refused } = index.stats()
  return [entries, givenUp, refused]
}

/** A stretch of one chain; its parent is the block before it, if any. */
const event: fc.Arbitrary<KvEvent> = fc
  .record({
    kind: fc.constantFrom('stored', 'removed', 'removed', 'removed', 'cleared'),
    first: fc.nat(BLOCKS - 1),
    // Lengths around the number of hashes that are prefetched at once.
    count: fc.constantFrom(0, 1, 1, 1, 2, 7, 30, 31, 32, 33, 200),
    clears: fc.nat(20),
  })
  .map(({ kind, first, count, clears }): KvEvent => {
    if (kind === 'removed') return removed(first, count)
    if (kind === 'cleared' && clears === 0) return { kind: 'cleared' }
    const blocks = first < LOOSE ? CHAIN_BLOCKS : LONG_BLOCKS
    const at = (first < LOOSE ? first : first - LOOSE) % blocks
    return stored(first, Math.min(count, blocks - at), at > 0)
  })

const numberOf = new Map(Array.from({ length: BLOCKS }, (_, block) => [low(block), block]))

/** The blocks of an event with those before it in the chain of the first one. */
function promptOf(hashes: Uint32Array): Uint32Array {
  const first = numberOf.get(hashes[0] ?? low(0)) as number
  const blocks = first < LOOSE ? CHAIN_BLOCKS : LONG_BLOCKS
  const before = (first < LOOSE ? first : first - LOOSE) % blocks
  return hashesOf(first - before, before + (hashes.length >> 1))
}

const batch = fc.record({
  holder: fc.nat(HOLDERS - 1),
  events: fc.array(event, { maxLength: 60, size: 'max' }),
})

describe('EventPrefixIndex.applyAll', () => {
  it('applyAll - same result as the events applied one by one', () => {
    fc.assert(
      fc.property(fc.array(batch, { maxLength: 6 }), (batches) => {
        const [together, single] = [filled(), filled()]
        for (const { holder, events } of batches) {
          const { refused } = single.stats()
          for (const each of events) single.apply(holder, each)
          expect(together.applyAll(holder, events)).toBe(single.stats().refused - refused)
        }
        // Not their memory: of blocks that are removed together, fewer are made loose first.
        const { entries, refused } = single.stats()
        expect(together.stats()).toMatchObject({ entries, refused })
        checkRuns(together.device)
        // Prompts begin where chains do: whether an index finds a block without those before it is not defined.
        const [a, b] = [new PrefixMatches(HOLDERS), new PrefixMatches(HOLDERS)]
        const find = (first: number, count: number): void => {
          const query = hashesOf(first, count)
          together.find(query, a)
          single.find(query, b)
          expect(a.device).toEqual(b.device)
        }
        for (let first = 0; first < LOOSE; first += CHAIN_BLOCKS) find(first, CHAIN_BLOCKS)
        for (let first = LOOSE; first < BLOCKS; first += LONG_BLOCKS) find(first, LONG_BLOCKS)
        const wrong: string[] = []
        for (let block = 0; block < BLOCKS; block += 7) {
          for (let holder = 0; holder < HOLDERS; holder++) {
            const [is, wanted] = [together, single].map((index) =>
              index.device.holds(holder, low(block), high(block)),
            )
            if (is !== wanted) wrong.push(`${holder}: block ${block} ${is}`)
          }
        }
        expect(wrong).toEqual([])
      }),
      { numRuns: 4 },
    )
  })

  it('apply - removals of one block wait, and nobody can tell', () => {
    const step = fc.record({
      holder: fc.nat(HOLDERS - 1),
      event,
      then: fc.constantFrom('', '', '', '', '', '', 'stats', 'find', 'all', 'leave'),
    })
    fc.assert(
      fc.property(fc.array(step, { minLength: 40, maxLength: 200, size: 'max' }), (steps) => {
        const [waiting, single] = [filled(), filled()]
        const [a, b] = [new PrefixMatches(HOLDERS), new PrefixMatches(HOLDERS)]
        for (const { holder, event: each, then } of steps) {
          const outcome = single.apply(holder, each)
          // Nothing waits in this index.
          single.stats()
          expect(waiting.apply(holder, each)).toBe(outcome)
          if (then === 'stats') expect(counts(waiting)).toEqual(counts(single))
          else if (then === 'all') {
            const refused = waiting.applyAll(0, [each])
            expect(refused).toBe(single.apply(0, each) === 'applied' ? 0 : 1)
          } else if (then === 'leave') for (const x of [waiting, single]) x.removeHolder(holder)
          else if (then === 'find' && each.kind !== 'cleared') {
            const prompt = promptOf(each.hashes)
            waiting.find(prompt, a)
            single.find(prompt, b)
            expect(a.device).toEqual(b.device)
          }
        }
        expect(counts(waiting)).toEqual(counts(single))
        checkRuns(waiting.device)
      }),
      { numRuns: 10 },
    )
  })

  it('applyAll - no event, and one rejected event', () => {
    const index = new EventPrefixIndex()
    expect(index.applyAll(0, [])).toBe(0)
    expect(index.applyAll(0, [stored(5, 1, true), stored(0, 2), removed(9, 1)])).toBe(1)
    expect(index.stats().entries).toBe(2)
  })
})
