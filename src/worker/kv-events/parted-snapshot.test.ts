import { describe, expect, it } from 'vitest'
import { CachedBlocks, FollowedBlocks } from '../../../test/cached-blocks.ts'
import { randomInt, seededRandom } from '../../base/index.ts'
import type { KvEvent, KvEventBatch } from '../../kv/index.ts'
import { workOfEvent } from '../../wire/index.ts'
import type { KvSnapshot } from '../../wire/index.ts'
import { KvEventPublisher } from './kv-event-publisher.ts'

const PART = 24
const RANKS = [0, 1]
const SEEDS = Array.from({ length: 100 }, (_, i) => i + 1)

/** A router that joins while the worker's engine works on. */
class Subscriber {
  readonly ranks = RANKS.map(() => new FollowedBlocks())
  /** Work of the largest part. */
  largest = 0
  readonly #kv: KvEventPublisher
  #snapshot: KvSnapshot | null = null

  constructor(kv: KvEventPublisher) {
    this.#kv = kv
  }

  ask(): void {
    this.#snapshot?.close()
    this.#snapshot = this.#kv.snapshot()
  }

  /** False: the snapshot is complete. */
  takePart(): boolean {
    const part = this.#snapshot?.next() ?? null
    if (part === null) {
      this.#snapshot = null
      return false
    }
    this.largest = Math.max(
      this.largest,
      part.events.reduce((sum, event) => sum + workOfEvent(event), 0),
    )
    this.ranks[part.dpRank]?.take(part)
    return true
  }

  takeEvents(batch: KvEventBatch): void {
    const events = this.#snapshot === null ? batch.events : this.#snapshot.follow(batch)
    this.ranks[batch.dpRank]?.take({ events })
  }
}

describe('PartedSnapshot - blocks change between its parts', () => {
  it.each(SEEDS)(
    'every router that joins, asks again or leaves - has exactly the blocks of the worker, seed %d',
    (seed) => {
      const random = seededRandom(seed)
      const dice = (sides: number): number => randomInt(random, sides)
      const hasHeldKv = dice(3) === 0
      const caches = RANKS.map(
        () => new CachedBlocks(random, { isNamed: dice(2) === 0, hasCopies: !hasHeldKv }),
      )
      const heldKv = hasHeldKv ? (rank: number): KvEvent[] => caches[rank]?.held() ?? [] : null
      const routers: Subscriber[] = []
      const kv = new KvEventPublisher(
        (batch) => {
          for (const router of routers) router.takeEvents(batch)
        },
        heldKv,
        { batchWordsMax: 40, partMax: PART, waitingWordsMax: 300 },
      )
      for (let step = 0; step < 400; step++) {
        const rank = dice(2)
        const cache = caches[rank]!
        // An engine reports several changes as one step.
        if (dice(3) > 0) {
          kv.publish(rank, Array.from({ length: 1 + dice(4) }, () => cache.change()).flat())
        }
        if (dice(60) === 0) {
          const router = new Subscriber(kv)
          routers.push(router)
          router.ask()
        }
        if (routers.length > 3 && dice(60) === 0) routers.shift()
        for (const router of routers) {
          if (dice(4) === 0) router.takePart()
          if (dice(120) === 0) router.ask()
        }
      }
      for (const router of routers) {
        while (router.takePart());
        expect(router.largest).toBeLessThan(PART + 16)
        for (const rank of RANKS) {
          expect(router.ranks[rank]?.names).toEqual(caches[rank]?.names)
          expect(router.ranks[rank]?.refused).toBe(0)
        }
      }
    },
  )

  it('many blocks - the parts are bounded, and nothing is created before it is asked for', () => {
    const kv = new KvEventPublisher(() => undefined)
    for (let i = 0; i < 50_000; i++) kv.publish(0, [block(i)])
    const snapshot = kv.snapshot()
    let blocks = 0
    for (let part = snapshot.next(); part !== null; part = snapshot.next()) {
      const work = part.events.reduce((sum, event) => sum + workOfEvent(event), 0)
      expect(work).toBeLessThan(2_100)
      blocks += work - part.events.length
    }
    expect(blocks).toBe(50_000)
  })

  it('one chain of 50,000 blocks - is divided, too, parents first', () => {
    const kv = new KvEventPublisher(() => undefined)
    const router = new FollowedBlocks()
    for (let i = 0; i < 50_000; i++) kv.publish(0, [block(i, i === 0 ? null : i - 1)])
    const snapshot = kv.snapshot()
    for (let part = snapshot.next(); part !== null; part = snapshot.next()) {
      expect(part.events.reduce((sum, event) => sum + workOfEvent(event), 0)).toBeLessThan(2_100)
      router.take(part)
    }
    expect(router.refused).toBe(0)
    expect(router.names).toHaveLength(50_000)
  })
})

function block(i: number, parent: number | null = null): KvEvent {
  const hash = (n: number): [number, number] => [Math.imul(n + 1, 0x9e3779b1) >>> 0, n]
  return {
    kind: 'stored',
    parent: parent === null ? null : hash(parent),
    hashes: Uint32Array.from(hash(i)),
    localHashes: new Uint32Array(0),
    tier: 'device',
  }
}
