/**
 * Turns what the engine says about its blocks into the numbered batches that routers follow.
 *
 * One batch per rank and engine step, numbered without gaps. A block that the engine holds twice is reported once, and
 * its removal only when the last copy goes. A router that comes late or has missed a batch gets a snapshot: one batch
 * per rank that begins with `cleared` and has the number of the last batch, so that the next one fits behind it. An engine
 * that keeps such books itself (`Engine.heldKv`) is asked, and its events are passed on as they are.
 */
import type { KvEvent, KvEventBatch, KvTier } from '../kv/index.ts'
import { HeldBlocks } from './held-blocks.ts'

const TIERS: readonly KvTier[] = ['device', 'host', 'disk']

interface Rank {
  sequence: number
  readonly tiers: ReadonlyMap<KvTier, HeldBlocks>
}

export class KvEventPublisher {
  readonly #emit: (batch: KvEventBatch) => void
  readonly #heldKv: ((dpRank: number) => readonly KvEvent[]) | null
  readonly #ranks = new Map<number, Rank>()

  constructor(
    emit: (batch: KvEventBatch) => void,
    heldKv: ((dpRank: number) => readonly KvEvent[]) | null = null,
  ) {
    this.#emit = emit
    this.#heldKv = heldKv
  }

  /** The events of one engine step. Nothing is emitted when no router needs to know. */
  publish(dpRank: number, events: readonly KvEvent[]): void {
    const rank = this.#rankOf(dpRank)
    const news = this.#heldKv === null ? newsFor(rank, events) : events
    if (news.length === 0) return
    rank.sequence++
    this.#emit({ sequence: rank.sequence, dpRank, events: news })
  }

  snapshot(): readonly KvEventBatch[] {
    return [...this.#ranks].map(([dpRank, rank]) => ({
      sequence: rank.sequence,
      dpRank,
      events: [{ kind: 'cleared' }, ...(this.#heldKv?.(dpRank) ?? storedEvents(rank))],
    }))
  }

  #rankOf(dpRank: number): Rank {
    const known = this.#ranks.get(dpRank)
    if (known !== undefined) return known
    const rank = { sequence: 0, tiers: new Map(TIERS.map((tier) => [tier, new HeldBlocks()])) }
    this.#ranks.set(dpRank, rank)
    return rank
  }
}

/** Keeps the books of them; what is left is what a router does not know. */
function newsFor(rank: Rank, events: readonly KvEvent[]): KvEvent[] {
  const news: KvEvent[] = []
  for (const event of events) {
    const told = applyTo(rank, event)
    if (told !== null) news.push(told)
  }
  return news
}

function storedEvents(rank: Rank): KvEvent[] {
  return [...rank.tiers].flatMap(([tier, held]) =>
    held.runs().map((run): KvEvent => ({ kind: 'stored', tier, ...run })),
  )
}

/** Keeps the books; returns what a router must be told, or null. */
function applyTo(rank: Rank, event: KvEvent): KvEvent | null {
  switch (event.kind) {
    case 'cleared':
      for (const held of rank.tiers.values()) held.clear()
      return event
    case 'stored':
      return store(rank.tiers.get(event.tier), event)
    case 'removed':
      return remove(rank.tiers.get(event.tier), event)
  }
}

function store(
  held: HeldBlocks | undefined,
  event: Extract<KvEvent, { kind: 'stored' }>,
): KvEvent | null {
  if (held === undefined) return null
  const { hashes, localHashes } = event
  let parent = event.parent
  let newCount = 0
  for (let at = 0; at + 1 < hashes.length; at += 2) {
    const low = hashes[at] as number
    const high = hashes[at + 1] as number
    const local = pairAt(localHashes, at)
    if (held.add(low, high, parent, local)) newCount++
    parent = [low, high]
  }
  return newCount === 0 ? null : event
}

function remove(
  held: HeldBlocks | undefined,
  event: Extract<KvEvent, { kind: 'removed' }>,
): KvEvent | null {
  if (held === undefined) return null
  const gone = new Uint32Array(event.hashes.length)
  let count = 0
  for (let at = 0; at + 1 < event.hashes.length; at += 2) {
    const low = event.hashes[at] as number
    const high = event.hashes[at + 1] as number
    if (!held.remove(low, high)) continue
    gone[count++] = low
    gone[count++] = high
  }
  if (count === 0) return null
  return count === gone.length ? event : { ...event, hashes: gone.slice(0, count) }
}

function pairAt(pairs: Uint32Array, at: number): readonly [number, number] | null {
  const low = pairs[at]
  const high = pairs[at + 1]
  return low === undefined || high === undefined ? null : [low, high]
}
