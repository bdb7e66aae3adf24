/**
 * Converts the engine's block events to the numbered batches that routers follow.
 *
 * One batch per rank and engine step, numbered without gaps. A block that the engine holds twice is reported once,
 * and its removal only when the last copy is removed. A router that joins late or has missed a batch gets a snapshot
 * (`PartedSnapshot`). An engine that keeps such records itself (`Engine.heldKv`) is asked, and its events are passed on
 * unchanged.
 */
import type { KvEvent, KvEventBatch, KvTier } from '../../kv/index.ts'
import type { KvSnapshot } from '../../wire/index.ts'
import { wordsOf } from './event-size.ts'
import { HeldBlocks } from './held-blocks.ts'
import { ListedSnapshot } from './listed-snapshot.ts'
import { PartedSnapshot } from './parted-snapshot.ts'
import { RecordedSnapshot } from './recorded-snapshot.ts'

export interface KvEventLimits {
  /** Maximum number of u32 in one batch, unless one event has more: a frontend applies a batch in one turn. */
  readonly batchWordsMax: number
  /** About how many blocks and events a part of a snapshot has. */
  readonly partMax: number
  /** Maximum number of u32 in events that wait until a list of the engine is sent; above, the list is asked for again. */
  readonly waitingWordsMax: number
}

const LIMITS: KvEventLimits = { batchWordsMax: 2 ** 14, partMax: 2_048, waitingWordsMax: 2 ** 20 }

const TIERS: readonly KvTier[] = ['device', 'host', 'disk']

interface Rank {
  sequence: number
  readonly tiers: ReadonlyMap<KvTier, HeldBlocks>
}

export class KvEventPublisher {
  readonly #emit: (batch: KvEventBatch) => void
  readonly #heldKv: ((dpRank: number) => readonly KvEvent[]) | null
  readonly #limits: KvEventLimits
  readonly #ranks = new Map<number, Rank>()

  constructor(
    emit: (batch: KvEventBatch) => void,
    heldKv: ((dpRank: number) => readonly KvEvent[]) | null = null,
    limits: Partial<KvEventLimits> = {},
  ) {
    this.#emit = emit
    this.#limits = { ...LIMITS, ...limits }
    this.#heldKv = heldKv
  }

  /**
   * Publishes the events of one engine step: one batch, or several if a frame cannot hold them. Nothing is published
   * if routers already know everything.
   */
  publish(dpRank: number, events: readonly KvEvent[]): void {
    const rank = this.#rankOf(dpRank)
    const news = this.#heldKv === null ? newsFor(rank, events) : events
    for (const batch of batchesOf(news, this.#limits.batchWordsMax)) {
      rank.sequence++
      this.#emit({ sequence: rank.sequence, dpRank, events: batch })
    }
  }

  snapshot(): KvSnapshot {
    const sources = [...this.#ranks].map(([dpRank, rank]) => ({
      dpRank,
      sequence: () => rank.sequence,
      begin: () =>
        this.#heldKv === null
          ? new RecordedSnapshot(rank.tiers)
          : new ListedSnapshot(this.#heldKv(dpRank), this.#limits.waitingWordsMax),
    }))
    return new PartedSnapshot(sources, this.#limits.partMax)
  }

  #rankOf(dpRank: number): Rank {
    const known = this.#ranks.get(dpRank)
    if (known !== undefined) return known
    const rank = { sequence: 0, tiers: new Map(TIERS.map((tier) => [tier, new HeldBlocks()])) }
    this.#ranks.set(dpRank, rank)
    return rank
  }
}

/** The events in order, divided into lists that each fit into a frame. */
function* batchesOf(events: readonly KvEvent[], sizeMax: number): Generator<readonly KvEvent[]> {
  let batch: KvEvent[] = []
  let size = 0
  for (const event of events) {
    const eventSize = wordsOf(event)
    if (size + eventSize > sizeMax && batch.length > 0) {
      yield batch
      batch = []
      size = 0
    }
    batch.push(event)
    size += eventSize
  }
  if (batch.length > 0) yield batch
}

/** Records the events; returns those that are new to routers. */
function newsFor(rank: Rank, events: readonly KvEvent[]): KvEvent[] {
  const news: KvEvent[] = []
  for (const event of events) {
    const newEvent = applyTo(rank, event)
    if (newEvent !== null) news.push(newEvent)
  }
  return news
}

/** Records one event; returns what routers must be told, or null. */
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
