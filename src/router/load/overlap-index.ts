/**
 * How many blocks of a prompt each rank of a pool holds, by tier: what workers announce, and what the router estimates
 * to be there because it has just sent it.
 *
 * Announcements and estimates are never mixed in one index, and a rank's score is the best one. An estimate counts
 * - on a rank that sends no events: as long as the rank has capacity for it, when it has said how many blocks it holds;
 *   for `approximateTtlMs` otherwise;
 * - on a rank with events: for `predictedTtlMs`, which keeps a burst of siblings together until the first one's blocks
 *   are announced; not at all when that is 0.
 */
import { ApproximateIndex, EventPrefixIndex, PrefixMatches } from '../../kv/index.ts'
import type { BlockHashes, KvEvent, PrefixIndexStats } from '../../kv/index.ts'

interface OverlapIndexOptions {
  readonly approximateTtlMs: number
  readonly predictedTtlMs: number
  readonly maxBlocks: number
  /** Memory of the index that is kept by events. */
  readonly indexBytes: number
}

/** What is known of the rank that a prompt was routed to. */
interface RoutedTo {
  readonly slot: number
  readonly hasEvents: boolean
  /** Blocks that it can hold; null: not known. */
  readonly capacity: number | null
}

/** Where capacity ends an assumed block, time only ends what no request has used again. */
const CAPACITY_TTL_MS = 3_600_000

export class OverlapIndex {
  readonly matches = new PrefixMatches()
  readonly #believed = new PrefixMatches()
  readonly #options: OverlapIndexOptions
  /** Made with the first event: a pool of decode workers never has one. */
  #events: EventPrefixIndex | null = null
  /** By the time for which an estimate counts. */
  readonly #beliefs = new Map<number, ApproximateIndex>()

  constructor(options: OverlapIndexOptions) {
    this.#options = options
  }

  reserve(slots: number): void {
    this.matches.reserve(slots)
    this.#believed.reserve(slots)
  }

  /** Fills `matches`. */
  find({ sequence }: BlockHashes, nowMs: number): void {
    const { matches } = this
    if (this.#events === null) matches.clear()
    else this.#events.find(sequence, matches)
    for (const index of this.#beliefs.values()) {
      if (matches.hasLower) {
        index.find(sequence, this.#believed, nowMs)
        matches.raise(this.#believed)
      } else index.raise(sequence, matches, nowMs)
    }
  }

  /** Returns how many events were refused. */
  apply(slot: number, events: readonly KvEvent[]): number {
    if (events.length === 0) return 0
    const index = (this.#events ??= new EventPrefixIndex({ bytesMax: this.#options.indexBytes }))
    return index.applyAll(slot, events)
  }

  /** Of the index that is kept by events; null while there is none. */
  get eventStats(): PrefixIndexStats | null {
    return this.#events?.stats() ?? null
  }

  /** A prompt goes to the rank: its blocks will be there. */
  routed({ slot, hasEvents, capacity }: RoutedTo, { sequence }: BlockHashes, nowMs: number): void {
    const { approximateTtlMs, predictedTtlMs, maxBlocks } = this.#options
    const silentTtlMs =
      capacity === null || approximateTtlMs === 0 ? approximateTtlMs : CAPACITY_TTL_MS
    const ttlMs = hasEvents ? predictedTtlMs : silentTtlMs
    if (ttlMs === 0) return
    let index = this.#beliefs.get(ttlMs)
    if (index === undefined) {
      index = new ApproximateIndex({ ttlMs, entriesMax: maxBlocks })
      this.#beliefs.set(ttlMs, index)
    }
    index.record(slot, sequence, nowMs, capacity)
  }

  /** The rank sends KV events from now on, or was told to forget all: its estimates are no longer used. */
  forgetBeliefs(slot: number): void {
    for (const index of this.#beliefs.values()) index.removeHolder(slot)
  }

  removeSlot(slot: number): void {
    this.#events?.removeHolder(slot)
    this.forgetBeliefs(slot)
  }
}
