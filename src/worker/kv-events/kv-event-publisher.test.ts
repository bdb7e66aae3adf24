import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { KvEvent, KvEventBatch, KvTier } from '../../kv/index.ts'
import { wholeKvSnapshot } from '../../wire/index.ts'
import { KvEventPublisher } from './kv-event-publisher.ts'

type Pair = readonly [number, number]

const pairs = (...hashes: readonly Pair[]): Uint32Array => Uint32Array.from(hashes.flat())
const stored = (
  parent: Pair | null,
  hashes: readonly Pair[],
  tier: KvTier = 'device',
): KvEvent => ({
  kind: 'stored',
  parent,
  hashes: pairs(...hashes),
  localHashes: pairs(...hashes.map(([low, high]): Pair => [low + 1000, high])),
  tier,
})
const removed = (hashes: readonly Pair[], tier: KvTier = 'device'): KvEvent => ({
  kind: 'removed',
  hashes: pairs(...hashes),
  tier,
})

/** Blocks of a rank on all tiers, as a router that comes late is reported. */
function heldIn(kv: KvEventPublisher, dpRank: number): number {
  const events =
    wholeKvSnapshot(kv.snapshot()).find((batch) => batch.dpRank === dpRank)?.events ?? []
  return events.reduce(
    (sum, event) => sum + (event.kind === 'stored' ? event.hashes.length / 2 : 0),
    0,
  )
}

/** A router that follows the numbered batches: sets of text keys, and nothing else. */
class Follower {
  readonly #ranks = new Map<number, { next: number; blocks: Set<string> }>()
  /** Called when a batch does not follow the last one. */
  readonly #snapshot: () => readonly KvEventBatch[]

  constructor(snapshot: () => readonly KvEventBatch[]) {
    this.#snapshot = snapshot
  }

  receive(batch: KvEventBatch): void {
    if (this.#tryApply(batch)) return
    this.resume()
  }

  resume(): void {
    for (const batch of this.#snapshot()) expect(this.#tryApply(batch)).toBe(true)
  }

  get blocks(): string[] {
    return [...this.#ranks]
      .flatMap(([rank, { blocks }]) => [...blocks].map((block) => `${rank}/${block}`))
      .sort()
  }

  #tryApply({ dpRank, sequence, events }: KvEventBatch): boolean {
    const rank = this.#ranks.get(dpRank) ?? { next: 1, blocks: new Set<string>() }
    this.#ranks.set(dpRank, rank)
    if (sequence < rank.next && events[0]?.kind !== 'cleared') return true
    if (sequence !== rank.next && events[0]?.kind !== 'cleared') return false
    rank.next = sequence + 1
    for (const event of events) applyToSet(rank.blocks, event)
    return true
  }
}

function applyToSet(blocks: Set<string>, event: KvEvent): void {
  if (event.kind === 'cleared') return blocks.clear()
  for (let i = 0; i < event.hashes.length; i += 2) {
    const key = `${event.tier}:${event.hashes[i]}:${event.hashes[i + 1]}`
    if (event.kind === 'stored') blocks.add(key)
    else blocks.delete(key)
  }
}

function publisher(): { batches: KvEventBatch[]; kv: KvEventPublisher } {
  const batches: KvEventBatch[] = []
  return { batches, kv: new KvEventPublisher((batch) => batches.push(batch)) }
}

describe('KvEventPublisher - published events', () => {
  it('an engine step - is one batch, numbered per rank from 1', () => {
    const { batches, kv } = publisher()
    kv.publish(0, [stored(null, [[1, 0]]), stored([1, 0], [[2, 0]])])
    kv.publish(1, [stored(null, [[1, 0]])])
    kv.publish(0, [removed([[2, 0]])])
    expect(batches.map(({ dpRank, sequence }) => [dpRank, sequence])).toEqual([
      [0, 1],
      [1, 1],
      [0, 2],
    ])
    expect(batches[0]?.events).toHaveLength(2)
  })

  it('a block held twice - is reported once, and removed with its last copy', () => {
    const { batches, kv } = publisher()
    kv.publish(0, [stored(null, [[1, 0]])])
    kv.publish(0, [stored(null, [[1, 0]])])
    kv.publish(0, [removed([[1, 0]])])
    expect(batches).toHaveLength(1)
    kv.publish(0, [removed([[1, 0]])])
    expect(batches).toHaveLength(2)
    expect(heldIn(kv, 0)).toBe(0)
  })

  it('a removal with some blocks held twice - names only the others', () => {
    const { batches, kv } = publisher()
    kv.publish(0, [
      stored(null, [
        [1, 0],
        [2, 0],
      ]),
      stored(null, [[1, 0]]),
    ])
    kv.publish(0, [
      removed([
        [2, 0],
        [1, 0],
      ]),
    ])
    expect(batches[1]?.events).toEqual([removed([[2, 0]])])
  })

  it('tiers and ranks - are counted separately; cleared clears all tiers of its rank', () => {
    const { kv } = publisher()
    kv.publish(0, [stored(null, [[1, 0]]), stored(null, [[1, 0]], 'host')])
    kv.publish(1, [stored(null, [[1, 0]])])
    kv.publish(0, [{ kind: 'cleared' }])
    expect([heldIn(kv, 0), heldIn(kv, 1)]).toEqual([0, 1])
  })
})

describe('KvEventPublisher - snapshot', () => {
  it('chains - are complete, parents before children, with the number of the last batch', () => {
    const { kv } = publisher()
    kv.publish(0, [
      stored(null, [
        [1, 9],
        [2, 9],
        [3, 9],
      ]),
    ])
    kv.publish(0, [stored([2, 9], [[4, 9]])])
    const [batch] = wholeKvSnapshot(kv.snapshot())
    expect(batch?.sequence).toBe(2)
    expect(batch?.events[0]).toEqual({ kind: 'cleared' })
    const seen = new Set<string>()
    for (const event of batch?.events ?? []) {
      if (event.kind !== 'stored') continue
      if (event.parent !== null) expect(seen.has(event.parent.join(':'))).toBe(true)
      expect(event.localHashes).toEqual(
        event.hashes.map((half, i) => half + (i % 2 === 0 ? 1000 : 0)),
      )
      for (let i = 0; i < event.hashes.length; i += 2)
        seen.add(`${event.hashes[i]}:${event.hashes[i + 1]}`)
    }
    expect(seen.size).toBe(4)
  })

  it('more than fits into a frame - is several batches', () => {
    const batches: KvEventBatch[] = []
    const kv = new KvEventPublisher((batch) => batches.push(batch), null, {
      batchWordsMax: 24,
      partMax: 4,
    })
    const chains = [1, 2, 3, 4].map((low) => stored(null, [[low, 0]]))
    kv.publish(0, chains)
    expect(batches.map(({ sequence, events }) => [sequence, events.length])).toEqual([
      [1, 2],
      [2, 2],
    ])
  })

  it('nothing published yet - is empty', () => {
    expect(publisher().kv.snapshot().next()).toBeNull()
  })

  it('a router that connects late or misses batches - ends with exactly the blocks of the worker', () => {
    const hash = fc.tuple(fc.integer({ min: 0, max: 11 }), fc.constantFrom(0, 0xffffffff))
    const tier = fc.constantFrom<KvTier>('device', 'host')
    const event: fc.Arbitrary<KvEvent> = fc.oneof(
      {
        weight: 6,
        arbitrary: fc
          .record({ hashes: fc.array(hash, { maxLength: 4 }), parent: fc.option(hash), tier })
          .map((e) => stored(e.parent, e.hashes, e.tier)),
      },
      {
        weight: 5,
        arbitrary: fc
          .record({ hashes: fc.array(hash, { maxLength: 4 }), tier })
          .map((e) => removed(e.hashes, e.tier)),
      },
      { weight: 1, arbitrary: fc.constant<KvEvent>({ kind: 'cleared' }) },
    )
    const step = fc.record({
      rank: fc.integer({ min: 0, max: 1 }),
      events: fc.array(event, { maxLength: 3 }),
      lost: fc.boolean(),
    })
    const steps60 = fc.array(step, { maxLength: 60, size: 'max' })
    fc.assert(
      fc.property(
        steps60,
        fc.nat(60),
        fc.constantFrom(20, 1e6),
        (steps, joinsAt, batchWordsMax) => {
          let isLost = false
          const naive = new Map<string, number>()
          const followers = [] as Follower[]
          const onBatch = (batch: KvEventBatch): void => {
            if (!isLost) for (const follower of followers) follower.receive(batch)
          }
          const kv: KvEventPublisher = new KvEventPublisher(onBatch, null, { batchWordsMax })
          steps.forEach((one, i) => {
            if (i === joinsAt) {
              const late = new Follower(() => wholeKvSnapshot(kv.snapshot()))
              late.resume()
              followers.push(late)
            }
            isLost = one.lost
            kv.publish(one.rank, one.events)
            for (const each of one.events) countNaively(naive, one.rank, each)
          })
          // A lost last batch is detected by the next batch.
          isLost = false
          for (const rank of [0, 1]) {
            kv.publish(rank, [stored(null, [[77, rank]])])
            countNaively(naive, rank, stored(null, [[77, rank]]))
          }
          const truth = [...naive].flatMap(([key, refs]) => (refs > 0 ? [key] : [])).sort()
          const first = new Follower(() => wholeKvSnapshot(kv.snapshot()))
          first.resume()
          for (const follower of [first, ...followers]) expect(follower.blocks).toEqual(truth)
        },
      ),
      { numRuns: 300 },
    )
  })
})

function countNaively(refs: Map<string, number>, rank: number, event: KvEvent): void {
  if (event.kind === 'cleared') {
    for (const key of refs.keys()) if (key.startsWith(`${rank}/`)) refs.delete(key)
    return
  }
  for (let i = 0; i < event.hashes.length; i += 2) {
    const key = `${rank}/${event.tier}:${event.hashes[i]}:${event.hashes[i + 1]}`
    const count = (refs.get(key) ?? 0) + (event.kind === 'stored' ? 1 : -1)
    refs.set(key, Math.max(0, count))
  }
}
