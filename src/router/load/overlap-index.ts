/**
 * How many leading blocks of a prompt each rank of a pool has cached, by tier: known from KV events, or estimated
 * because the router has just sent the prompt there.
 *
 * Events and estimates are kept in separate indexes; a rank's score is the better of both. An estimate is valid
 * - on a rank without events: until the rank's capacity is used up, if it reports its number of blocks; otherwise for
 *   `approximateTtlMs`;
 * - on a rank with events: for `predictedTtlMs`, which keeps a burst of requests with the same prefix together until the
 *   first one's blocks are announced; not at all if that is 0.
 */
import { ApproximateIndex, EventPrefixIndex, PrefixMatches } from '../../kv/index.ts'
import type { SequenceHashes, KvEvent, PrefixIndexStats } from '../../kv/index.ts'

interface OverlapIndexOptions {
  readonly approximateTtlMs: number
  readonly predictedTtlMs: number
  readonly maxBlocks: number
  /** Memory limit of the event index, in bytes. */
  readonly indexBytes: number
}

/** The rank that a prompt was routed to. */
interface RoutedTo {
  readonly slot: number
  readonly hasEvents: boolean
  /** KV blocks of the rank; null if not known. */
  readonly capacity: number | null
}

/** If capacity limits the estimates, the TTL only removes what no request has used for this long. */
const CAPACITY_TTL_MS = 3_600_000

export class OverlapIndex {
  readonly matches = new PrefixMatches()
  readonly #believed = new PrefixMatches()
  readonly #options: OverlapIndexOptions
  /** Created with the first event: a pool of decode workers never has one. */
  #events: EventPrefixIndex | null = null
  /** Estimates, by their TTL in milliseconds. */
  readonly #beliefs = new Map<number, ApproximateIndex>()

  constructor(options: OverlapIndexOptions) {
    this.#options = options
  }

  reserve(slots: number): void {
    this.matches.reserve(slots)
    this.#believed.reserve(slots)
  }

  /** Looks up a prompt; the result is in `matches`. */
  find({ sequence }: SequenceHashes, nowMs: number): void {
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

  /** Applies events; returns how many of them were rejected. */
  apply(slot: number, events: readonly KvEvent[]): number {
    if (events.length === 0) return 0
    const index = (this.#events ??= new EventPrefixIndex({ bytesMax: this.#options.indexBytes }))
    return index.applyAll(slot, events)
  }

  /** Does a small part of the event index's work that waits for events: those of a quiet fleet may be hours apart. */
  tend(): void {
    this.#events?.tend()
  }

  /** Statistics of the event index; null while there is none. */
  get eventStats(): PrefixIndexStats | null {
    return this.#events?.stats() ?? null
  }

  /** The prompt was sent to the rank: its blocks will be cached there. */
  routed(
    { slot, hasEvents, capacity }: RoutedTo,
    { sequence }: SequenceHashes,
    nowMs: number,
  ): void {
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

  /** Drops the estimates of a rank, because it now sends KV events or was told to clear its cache. */
  forgetBeliefs(slot: number): void {
    for (const index of this.#beliefs.values()) index.removeHolder(slot)
  }

  removeSlot(slot: number): void {
    this.#events?.removeHolder(slot)
    this.forgetBeliefs(slot)
  }
}
