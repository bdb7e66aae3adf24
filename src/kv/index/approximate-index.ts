/**
 * A prefix index without events: a worker is assumed to hold for a while what it was sent.
 *
 * Owns: leases, one for each routed prompt. A block of a holder lives as long as its newest lease (`ttlMs`), and no
 * longer than the holder has capacity for it: beyond its capacity the leases go that were routed longest ago, as its own
 * cache would let them go. When there are more than `entriesMax` (holder, block) entries in all, the oldest of everybody
 * go, down to `pruneRatio` of the bound; and the oldest when there are more than `leasesMax`.
 *
 * It is an index of its own for engines that send no events, and, with a short `ttlMs`, the prediction beside an
 * event-driven one: a burst of siblings follows its first request, although that one's blocks are not yet announced.
 * Ask both and combine with `PrefixMatches.raise`; never put predictions into the index that events keep.
 *
 * Time comes as an argument and must not run backwards.
 */
import { HeldPrefixTree } from './held-prefix-tree.ts'
import { LeaseQueue } from './lease-queue.ts'
import type { Lease } from './lease-queue.ts'
import type { PrefixIndexStats } from '../prefix/prefix-index.ts'
import type { PrefixMatches } from '../prefix/prefix-matches.ts'

export interface ApproximateIndexOptions {
  readonly ttlMs?: number
  /** (holder, block) entries. */
  readonly entriesMax?: number
  readonly pruneRatio?: number
  /** Prompts that are remembered; beyond it the oldest go, one by one. */
  readonly leasesMax?: number
}

/** What one holder is assumed to have. */
interface Holdings {
  blocks: number
  readonly leases: LeaseQueue
}

const TTL_MS_DEFAULT = 120_000
const ENTRIES_MAX_DEFAULT = 1 << 20
const PRUNE_RATIO_DEFAULT = 0.8
/** Prompts that are sent again and again: so many entries for each lease before the oldest leases go. */
const ENTRIES_PER_LEASE = 4
/** Short prompts that are all new: a lease takes as much memory as the entries of 80 blocks. These take 45 MB. */
const LEASES_MAX_DEFAULT = 1 << 16
/** What a lease, its node and that node's arrays take, as measured. */
const BYTES_PER_LEASE = 620

export class ApproximateIndex {
  readonly #ttlMs: number
  readonly #entriesMax: number
  readonly #pruneRatio: number
  readonly #leasesMax: number
  readonly #tree = new HeldPrefixTree()
  /** In order of expiry, because every lease lasts equally long. */
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
   * The prompt was sent to the holder; its blocks count as held from now on, and those known before live longer.
   * `capacity`: blocks that the holder can hold; null when that is not known.
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
      // The newest prompt stays whole, however small the capacity.
      this.#endWhile(holdings.leases, (oldest) => oldest !== lease && holdings.blocks > capacity)
    }
    this.#endWhile(this.#leases, () => this.#leaseCount > this.#leasesMax)
    if (this.#isOver(1)) {
      this.#endWhile(this.#leases, (oldest) => oldest !== lease && this.#isOver(this.#pruneRatio))
    }
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
    if (holdings !== undefined) this.#endWhile(holdings.leases, () => true)
  }

  find(sequenceHashes: Uint32Array, matches: PrefixMatches, nowMs: number): void {
    this.expire(nowMs)
    this.#tree.find(sequenceHashes, matches)
  }

  /** Adds what is held here to the answer of another index, which knows of no lower tiers. */
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
