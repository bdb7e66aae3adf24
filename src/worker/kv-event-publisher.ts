/**
 * Converts the engine's block events to the numbered batches that routers follow.
 *
 * One batch per rank and engine step, numbered without gaps. A block that the engine holds twice is reported once,
 * and its removal only when the last copy is removed. A router that joins late or has missed a batch gets a snapshot:
 * batches of each rank, of which the first begins with `cleared` and the last has the number of the last published
 * batch, so that the next batch follows it. An engine that keeps such records itself (`Engine.heldKv`) is asked, and
 * its events are passed on unchanged.
 */
import type { KvEvent, KvEventBatch, KvTier } from '../kv/index.ts'
import { HeldBlocks } from './held-blocks.ts'

/** Maximum number of u32 in one batch of KV events; a frame has space for four times as many. */
const BATCH_SIZE_MAX = 2 ** 22

const TIERS: readonly KvTier[] = ['device', 'host', 'disk']

interface Rank {
  sequence: number
  readonly tiers: ReadonlyMap<KvTier, HeldBlocks>
}

export class KvEventPublisher {
  readonly #emit: (batch: KvEventBatch) => void
  readonly #heldKv: ((dpRank: number) => readonly KvEvent[]) | null
  readonly #sizeMax: number
  readonly #ranks = new Map<number, Rank>()

  constructor(
    emit: (batch: KvEventBatch) => void,
    heldKv: ((dpRank: number) => readonly KvEvent[]) | null = null,
    sizeMax = BATCH_SIZE_MAX,
  ) {
    this.#emit = emit
    this.#sizeMax = sizeMax
    this.#heldKv = heldKv
  }

  /**
   * Publishes the events of one engine step: one batch, or several if a frame cannot hold them. Nothing is published
   * if routers already know everything.
   */
  publish(dpRank: number, events: readonly KvEvent[]): void {
    const rank = this.#rankOf(dpRank)
    const news = this.#heldKv === null ? newsFor(rank, events) : events
    for (const batch of batchesOf(news, this.#sizeMax)) {
      rank.sequence++
      this.#emit({ sequence: rank.sequence, dpRank, events: batch })
    }
  }

  snapshot(): readonly KvEventBatch[] {
    return [...this.#ranks].flatMap(([dpRank, rank]) => {
      const held = this.#heldKv?.(dpRank) ?? storedEvents(rank)
      const batches = [...batchesOf([{ kind: 'cleared' }, ...held], this.#sizeMax)]
      rank.sequence = Math.max(rank.sequence, batches.length)
      const first = rank.sequence - batches.length + 1
      return batches.map((events, i) => ({ sequence: first + i, dpRank, events }))
    })
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
    const eventSize = sizeOf(event)
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

function sizeOf(event: KvEvent): number {
  const head = 8
  if (event.kind === 'cleared') return head
  const locals = event.kind === 'stored' ? event.localHashes.length : 0
  return head + event.hashes.length + locals
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

function storedEvents(rank: Rank): KvEvent[] {
  return [...rank.tiers].flatMap(([tier, held]) =>
    held.runs().map((run): KvEvent => ({ kind: 'stored', tier, ...run })),
  )
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
