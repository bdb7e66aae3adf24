/**
 * A prefix index without events: what a worker was sent, it is believed to hold for a while.
 *
 * Owns: leases, one for each routed prompt. A block of a holder lives as long as its newest lease (`ttlMs`), and no
 * longer than the holder has room for it: beyond its capacity the leases go that were routed longest ago, as its own
 * cache would let them go. When there are more than `entriesMax` (holder, block) entries in all, the oldest of everybody
 * go, down to `pruneRatio` of the bound. Within a lease the deepest block goes first.
 *
 * It is an index of its own for engines that send no events, and, with a short `ttlMs`, the prediction beside an
 * event-driven one: a burst of siblings follows its first request, although that one's blocks are not yet announced.
 * Ask both and combine with `PrefixMatches.raise`; never put predictions into the index that events keep.
 *
 * Time comes as an argument and must not run backwards.
 */
import { BlockCounts } from './block-counts.ts'
import { LeaseQueue } from './lease-queue.ts'
import type { Lease } from './lease-queue.ts'
import type { PrefixIndexStats } from './prefix-index.ts'
import type { PrefixMatches } from './prefix-matches.ts'
import { RunIndex } from './run-index.ts'

export interface ApproximateIndexOptions {
  readonly ttlMs?: number
  /** (holder, block) entries. */
  readonly entriesMax?: number
  readonly pruneRatio?: number
}

/** What one holder is believed to have. */
interface Holdings {
  /** How many leases want each block. */
  readonly wanted: BlockCounts
  readonly leases: LeaseQueue
}

const TTL_MS_DEFAULT = 120_000
const ENTRIES_MAX_DEFAULT = 1 << 20
const PRUNE_RATIO_DEFAULT = 0.8
/** Leases may name so many blocks for each entry before the oldest go: prompts that are sent again and again. */
const LEASED_PER_ENTRY = 4
const PAGES_SPARE = 1 << 12
const NO_HASHES = new Uint32Array(0)

export class ApproximateIndex {
  readonly #ttlMs: number
  readonly #entriesMax: number
  readonly #pruneRatio: number
  readonly #index: RunIndex
  /** In order of expiry, because every lease lasts equally long. */
  readonly #leases = new LeaseQueue()
  #leased = 0
  #refused = 0
  readonly #holdings = new Map<number, Holdings>()

  constructor(options: ApproximateIndexOptions = {}) {
    this.#ttlMs = options.ttlMs ?? TTL_MS_DEFAULT
    this.#entriesMax = options.entriesMax ?? ENTRIES_MAX_DEFAULT
    this.#pruneRatio = options.pruneRatio ?? PRUNE_RATIO_DEFAULT
    // Runs begin on pages of their own, so a bound in blocks needs some more in pages.
    this.#index = new RunIndex({ blocksMax: 4 * this.#entriesMax + PAGES_SPARE, hasOrphans: false })
  }

  /**
   * The prompt was sent to the holder; its blocks count as held from now on, and those known before live longer.
   * `capacity`: blocks that the holder has room for; null when that is not known.
   */
  record(
    holder: number,
    sequenceHashes: Uint32Array,
    nowMs: number,
    capacity: number | null = null,
  ): void {
    this.expire(nowMs)
    if (sequenceHashes.length === 0) return
    let outcome = this.#index.store(holder, null, sequenceHashes)
    for (let oldest = this.#leases.oldest(); oldest !== null; oldest = this.#leases.oldest()) {
      if (outcome !== 'capacity-exhausted') break
      this.#end(oldest)
      outcome = this.#index.store(holder, null, sequenceHashes)
    }
    if (outcome !== 'applied') {
      this.#refused += 1
      return
    }
    this.#lease(holder, sequenceHashes.slice(), nowMs, capacity)
    if (this.#isOver(1)) this.#endWhile(this.#leases, () => this.#isOver(this.#pruneRatio))
  }

  /** Forgets what is due. Queries and records do this on their own; call it to give memory back in idle times. */
  expire(nowMs: number): void {
    this.#endWhile(this.#leases, ({ expiresMs }) => expiresMs <= nowMs)
  }

  /** When the next lease ends, or null. */
  nextExpiryMs(): number | null {
    return this.#leases.oldest()?.expiresMs ?? null
  }

  removeHolder(holder: number): void {
    const holdings = this.#holdings.get(holder)
    if (holdings === undefined) return
    this.#index.removeHolder(holder)
    this.#holdings.delete(holder)
    for (let lease = holdings.leases.oldest(); lease !== null; lease = holdings.leases.oldest()) {
      this.#end(lease)
    }
  }

  find(sequenceHashes: Uint32Array, matches: PrefixMatches, nowMs: number): void {
    this.expire(nowMs)
    matches.clear()
    this.#index.find(sequenceHashes, matches)
  }

  stats(): PrefixIndexStats {
    let bytes = this.#index.bytes + 8 * this.#leased
    for (const { wanted } of this.#holdings.values()) bytes += wanted.bytes
    return {
      entries: this.#index.entries,
      blocks: this.#index.blocks,
      bytes,
      refused: this.#refused,
    }
  }

  #lease(holder: number, hashes: Uint32Array, nowMs: number, capacity: number | null): void {
    const { wanted, leases } = this.#holdingsOf(holder)
    for (let i = 0; i < hashes.length; i += 2) {
      wanted.add(hashes[i] as number, hashes[i + 1] as number)
    }
    const lease: Lease = { holder, expiresMs: nowMs + this.#ttlMs, hashes }
    leases.push(lease)
    this.#leases.push(lease)
    this.#leased += hashes.length >> 1
    if (capacity === null) return
    // The newest prompt stays whole, however little room there is.
    this.#endWhile(leases, (oldest) => oldest !== lease && wanted.size > capacity)
  }

  #holdingsOf(holder: number): Holdings {
    const known = this.#holdings.get(holder)
    if (known !== undefined) return known
    const holdings = { wanted: new BlockCounts(), leases: new LeaseQueue() }
    this.#holdings.set(holder, holdings)
    return holdings
  }

  #isOver(ratio: number): boolean {
    return (
      this.#index.entries > ratio * this.#entriesMax ||
      this.#leased > ratio * LEASED_PER_ENTRY * this.#entriesMax
    )
  }

  #endWhile(queue: LeaseQueue, isDue: (oldest: Lease) => boolean): void {
    for (let oldest = queue.oldest(); oldest !== null && isDue(oldest); oldest = queue.oldest()) {
      this.#end(oldest)
    }
  }

  #end(lease: Lease): void {
    const { holder, hashes } = lease
    lease.hashes = NO_HASHES
    this.#leased -= hashes.length >> 1
    this.#leases.ended()
    const holdings = this.#holdings.get(holder)
    if (holdings === undefined) return
    holdings.leases.ended()
    const { wanted } = holdings
    // Whoever wants a block wants all before it, so what nobody wants any more is the end of the chain.
    const gone = new Uint32Array(hashes.length)
    let goneLength = 0
    for (let i = hashes.length - 2; i >= 0; i -= 2) {
      const low = hashes[i] as number
      const high = hashes[i + 1] as number
      if (wanted.drop(low, high) > 0) continue
      gone[goneLength++] = low
      gone[goneLength++] = high
    }
    if (wanted.size === 0) this.#holdings.delete(holder)
    if (goneLength > 0) this.#index.remove(holder, gone.subarray(0, goneLength))
  }
}
