/**
 * A prefix index without KV events: assumes that a worker keeps the prompts that it was sent in its cache for a
 * while.
 *
 * Owns leases, one for each routed prompt. A block of a holder lives as long as its newest lease (`ttlMs`), limited
 * by the holder's capacity: beyond it the leases that were routed longest ago end, as an LRU cache would evict them.
 * If there are more than `entriesMax` (holder, block) entries in total, the oldest leases of all holders end, down to
 * `pruneRatio` of the limit; likewise the oldest if there are more than `leasesMax`.
 *
 * Used alone for engines without events, and with a short `ttlMs` as a prediction beside an event-driven index: a
 * burst of requests with the same prefix follows the first one although its blocks are not announced yet. Query both
 * and combine them with `PrefixMatches.raise`; never put predictions into the index that is built from events.
 *
 * Time is an argument and must not run backwards.
 */
import { HeldPrefixTree } from './held-prefix-tree.ts'
import { LeaseQueue } from './lease-queue.ts'
import type { Lease } from './lease-queue.ts'
import type { PrefixIndexStats } from '../prefix/prefix-index.ts'
import type { PrefixMatches } from '../prefix/prefix-matches.ts'

export interface ApproximateIndexOptions {
  readonly ttlMs?: number
  /** Limit of (holder, block) entries. */
  readonly entriesMax?: number
  readonly pruneRatio?: number
  /** Limit of remembered prompts; beyond it the oldest are dropped, one by one. */
  readonly leasesMax?: number
}

/** Assumed cache contents of one holder. */
interface Holdings {
  blocks: number
  readonly leases: LeaseQueue
}

const TTL_MS_DEFAULT = 120_000
const ENTRIES_MAX_DEFAULT = 1 << 20
const PRUNE_RATIO_DEFAULT = 0.8
/** A lease counts as this many entries: limits the leases of prompts that are sent repeatedly and add no entries. */
const ENTRIES_PER_LEASE = 4
/** For many short new prompts: a lease takes as much memory as the entries of 55 blocks. This many take 29 MB. */
const LEASES_MAX_DEFAULT = 1 << 16
/** Measured memory of a lease, its node and that node's arrays. */
const BYTES_PER_LEASE = 440

export class ApproximateIndex {
  readonly #ttlMs: number
  readonly #entriesMax: number
  readonly #pruneRatio: number
  readonly #leasesMax: number
  readonly #tree = new HeldPrefixTree()
  /** In order of expiry, because all leases have the same duration. */
  readonly #leases = new LeaseQueue()
  #leaseCount = 0
  #entries = 0
  readonly #holdings = new Map<number, Holdings>()

  constructor(options: ApproximateIndexOptions = {}) {
    this.#ttlMs = options.ttlMs ?? TTL_MS_DEFAULT
    this.#entriesMax = options.entriesMax ?? ENTRIES_MAX_DEFAULT
    this.#pruneRatio = options.pruneRatio ?? PRUNE_RATIO_DEFAULT
    this.#leasesMax = options.leasesMax ?? LEASES_MAX_DEFAULT
  }

  /**
   * The prompt was sent to the holder: its blocks count as cached from now on, and known ones live longer.
   * `capacity`: number of blocks that the holder can cache; null if unknown.
   */
  record(
    holder: number,
    sequenceHashes: Uint32Array,
    nowMs: number,
    capacity: number | null = null,
  ): void {
    this.expire(nowMs)
    if (sequenceHashes.length === 0) return
    const { node, added } = this.#tree.insert(sequenceHashes, holder)
    const holdings = this.#holdingsOf(holder)
    holdings.blocks += added
    this.#entries += added
    const lease: Lease = { holder, expiresMs: nowMs + this.#ttlMs, node }
    holdings.leases.push(lease)
    this.#leases.push(lease)
    this.#leaseCount += 1
    if (capacity !== null) {
      // The newest prompt is kept completely, however small the capacity.
      this.#endWhile(holdings.leases, (oldest) => oldest !== lease && holdings.blocks > capacity)
    }
    this.#endWhile(this.#leases, () => this.#leaseCount > this.#leasesMax)
    if (this.#isOver(1)) {
      this.#endWhile(this.#leases, (oldest) => oldest !== lease && this.#isOver(this.#pruneRatio))
    }
  }

  /** Drops expired leases. `find` and `record` do this themselves; call it to release memory in idle times. */
  expire(nowMs: number): void {
    this.#endWhile(this.#leases, ({ expiresMs }) => expiresMs <= nowMs)
  }

  /** When the next lease ends, or null. */
  nextExpiryMs(): number | null {
    return this.#leases.oldest()?.expiresMs ?? null
  }

  removeHolder(holder: number): void {
    const holdings = this.#holdings.get(holder)
    if (holdings !== undefined) this.#endWhile(holdings.leases, () => true)
  }

  find(sequenceHashes: Uint32Array, matches: PrefixMatches, nowMs: number): void {
    this.expire(nowMs)
    this.#tree.find(sequenceHashes, matches)
  }

  /** Adds the estimates to the result of another index that has no host or disk tiers. */
  raise(sequenceHashes: Uint32Array, matches: PrefixMatches, nowMs: number): void {
    this.expire(nowMs)
    this.#tree.raise(sequenceHashes, matches)
  }

  stats(): PrefixIndexStats {
    const { blocks } = this.#tree
    const bytes = 8 * blocks + BYTES_PER_LEASE * this.#leaseCount
    return { entries: this.#entries, blocks, bytes, refused: 0, givenUp: 0 }
  }

  #holdingsOf(holder: number): Holdings {
    const known = this.#holdings.get(holder)
    if (known !== undefined) return known
    const holdings = { blocks: 0, leases: new LeaseQueue() }
    this.#holdings.set(holder, holdings)
    return holdings
  }

  #isOver(ratio: number): boolean {
    return (
      this.#entries > ratio * this.#entriesMax ||
      ENTRIES_PER_LEASE * this.#leaseCount > ratio * this.#entriesMax
    )
  }

  #endWhile(queue: LeaseQueue, isDue: (oldest: Lease) => boolean): void {
    for (let oldest = queue.oldest(); oldest !== null && isDue(oldest); oldest = queue.oldest()) {
      this.#end(oldest)
    }
  }

  #end(lease: Lease): void {
    const { holder, node } = lease
    if (node === null) return
    const holdings = this.#holdingsOf(holder)
    const freed = this.#tree.remove(node, holder)
    lease.node = null
    this.#entries -= freed
    holdings.blocks -= freed
    this.#leaseCount -= 1
    this.#leases.ended()
    holdings.leases.ended()
    if (holdings.leases.oldest() === null) this.#holdings.delete(holder)
  }
}
