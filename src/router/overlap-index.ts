/**
 * How many blocks of a prompt each rank of a pool holds, by tier: what workers announce, and what the router believes
 * to be there because it has just sent it.
 *
 * Announcements and beliefs are never mixed in one index, and a rank's score is the best one. A belief counts
 * - on a rank that sends no events: as long as the rank has room for it, when it has said how much room there is;
 *   for `approximateTtlMs` otherwise;
 * - on a rank with events: for `predictedTtlMs`, which keeps a burst of siblings together until the first one's blocks
 *   are announced; not at all when that is 0.
 */
import { ApproximateIndex, EventPrefixIndex, PrefixMatches } from '../kv/index.ts'
import type { BlockHashes, KvEvent, PrefixIndex } from '../kv/index.ts'

interface OverlapIndexOptions {
  readonly approximateTtlMs: number
  readonly predictedTtlMs: number
  readonly maxBlocks: number
}

/** What is known of the rank that a prompt was routed to. */
interface RoutedTo {
  readonly slot: number
  readonly hasEvents: boolean
  /** Blocks that it has room for; null: not known. */
  readonly capacity: number | null
}

/** Where room is what ends a belief, time only ends what nobody has come back to. */
const ROOM_TTL_MS = 3_600_000

export class OverlapIndex {
  readonly matches = new PrefixMatches()
  readonly #believed = new PrefixMatches()
  readonly #options: OverlapIndexOptions
  /** Made with the first event: a pool of decode workers never has one. */
  #events: PrefixIndex | null = null
  /** By the time for which a belief counts. */
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
      index.find(sequence, this.#believed, nowMs)
      matches.raise(this.#believed)
    }
  }

  /** Returns how many events were refused. */
  apply(slot: number, events: readonly KvEvent[]): number {
    if (events.length === 0) return 0
    const index = (this.#events ??= new EventPrefixIndex({ blocksMax: this.#options.maxBlocks }))
    let refused = 0
    for (const event of events) {
      const outcome = index.apply(slot, event)
      if (outcome !== 'applied' && outcome !== 'block-not-found') refused++
    }
    return refused
  }

  /** A prompt goes to the rank: its blocks will be there. */
  routed({ slot, hasEvents, capacity }: RoutedTo, { sequence }: BlockHashes, nowMs: number): void {
    const { approximateTtlMs, predictedTtlMs, maxBlocks } = this.#options
    const silentTtlMs = capacity === null || approximateTtlMs === 0 ? approximateTtlMs : ROOM_TTL_MS
    const ttlMs = hasEvents ? predictedTtlMs : silentTtlMs
    if (ttlMs === 0) return
    let index = this.#beliefs.get(ttlMs)
    if (index === undefined) {
      index = new ApproximateIndex({ ttlMs, entriesMax: maxBlocks })
      this.#beliefs.set(ttlMs, index)
    }
    index.record(slot, sequence, nowMs, capacity)
  }

  /** The rank speaks for itself from now on: what was believed of it until now is no longer asked. */
  hasBegunEvents(slot: number): void {
    for (const index of this.#beliefs.values()) index.removeHolder(slot)
  }

  removeSlot(slot: number): void {
    this.#events?.removeHolder(slot)
    this.hasBegunEvents(slot)
  }
}
