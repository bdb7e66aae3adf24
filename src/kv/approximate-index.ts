/**
 * A prefix index without events: what a worker was sent, it is believed to hold for a while.
 *
 * Owns: leases, one for each routed prompt. A block of a holder lives as long as its newest lease (`ttlMs`); when
 * there are more than `entriesMax` (holder, block) entries, the leases that were routed longest ago go first, down to
 * `pruneRatio` of the bound. Within a lease the deepest block goes first.
 *
 * It is an index of its own for engines that send no events, and, with a short `ttlMs`, the prediction beside an
 * event-driven one: a burst of siblings follows its first request, although that one's blocks are not yet announced.
 * Ask both and combine with `PrefixMatches.raise`; never put predictions into the index that events keep.
 *
 * Time comes as an argument and must not run backwards.
 */
import { BlockCounts } from './block-counts.ts'
import type { PrefixIndexStats } from './prefix-index.ts'
import type { PrefixMatches } from './prefix-matches.ts'
import { RunIndex } from './run-index.ts'

export interface ApproximateIndexOptions {
  readonly ttlMs?: number
  /** (holder, block) entries. */
  readonly entriesMax?: number
  readonly pruneRatio?: number
}

interface Lease {
  readonly holder: number
  /** Leases of a holder that has left since are void. */
  readonly generation: number
  readonly expiresMs: number
  readonly hashes: Uint32Array
}

const TTL_MS_DEFAULT = 120_000
const ENTRIES_MAX_DEFAULT = 1 << 20
const PRUNE_RATIO_DEFAULT = 0.8
/** Leases may name so many blocks for each entry before the oldest go: prompts that are sent again and again. */
const LEASED_PER_ENTRY = 4
const PAGES_SPARE = 1 << 12

export class ApproximateIndex {
  readonly #ttlMs: number
  readonly #entriesMax: number
  readonly #pruneRatio: number
  readonly #index: RunIndex
  /** In order of expiry, because every lease lasts equally long; those before `#oldest` are gone. */
  #leases: (Lease | undefined)[] = []
  #oldest = 0
  #leased = 0
  #refused = 0
  readonly #wanted = new Map<number, BlockCounts>()
  readonly #generations: number[] = []

  constructor(options: ApproximateIndexOptions = {}) {
    this.#ttlMs = options.ttlMs ?? TTL_MS_DEFAULT
    this.#entriesMax = options.entriesMax ?? ENTRIES_MAX_DEFAULT
    this.#pruneRatio = options.pruneRatio ?? PRUNE_RATIO_DEFAULT
    // Runs begin on pages of their own, so a bound in blocks needs some more in pages.
    this.#index = new RunIndex({ blocksMax: 4 * this.#entriesMax + PAGES_SPARE, hasOrphans: false })
  }

  /** The prompt was sent to the holder; its blocks count as held from now on, and those known before live longer. */
  record(holder: number, sequenceHashes: Uint32Array, nowMs: number): void {
    this.expire(nowMs)
    if (sequenceHashes.length === 0) return
    let outcome = this.#index.store(holder, null, sequenceHashes)
    while (outcome === 'capacity-exhausted' && this.#oldest < this.#leases.length) {
      this.#dropOldest()
      outcome = this.#index.store(holder, null, sequenceHashes)
    }
    if (outcome !== 'applied') {
      this.#refused += 1
      return
    }
    let wanted = this.#wanted.get(holder)
    if (wanted === undefined) {
      wanted = new BlockCounts()
      this.#wanted.set(holder, wanted)
    }
    const hashes = sequenceHashes.slice()
    for (let i = 0; i < hashes.length; i += 2) {
      wanted.add(hashes[i] as number, hashes[i + 1] as number)
    }
    const generation = this.#generations[holder] ?? 0
    this.#leases.push({ holder, generation, expiresMs: nowMs + this.#ttlMs, hashes })
    this.#leased += hashes.length >> 1
    if (this.#isOver(1)) {
      while (this.#isOver(this.#pruneRatio) && this.#oldest < this.#leases.length)
        this.#dropOldest()
    }
  }

  #isOver(ratio: number): boolean {
    return (
      this.#index.entries > ratio * this.#entriesMax ||
      this.#leased > ratio * LEASED_PER_ENTRY * this.#entriesMax
    )
  }

  /** Forgets what is due. Queries and records do this on their own; call it to give memory back in idle times. */
  expire(nowMs: number): void {
    while ((this.#leases[this.#oldest]?.expiresMs ?? Infinity) <= nowMs) this.#dropOldest()
  }

  /** When the next lease ends, or null. */
  nextExpiryMs(): number | null {
    return this.#leases[this.#oldest]?.expiresMs ?? null
  }

  removeHolder(holder: number): void {
    this.#index.removeHolder(holder)
    this.#wanted.delete(holder)
    this.#generations[holder] = (this.#generations[holder] ?? 0) + 1
  }

  find(sequenceHashes: Uint32Array, matches: PrefixMatches, nowMs: number): void {
    this.expire(nowMs)
    matches.clear()
    this.#index.find(sequenceHashes, matches)
  }

  stats(): PrefixIndexStats {
    let bytes = this.#index.bytes + 8 * this.#leased
    for (const wanted of this.#wanted.values()) bytes += wanted.bytes
    return {
      entries: this.#index.entries,
      blocks: this.#index.blocks,
      bytes,
      refused: this.#refused,
    }
  }

  #dropOldest(): void {
    const lease = this.#leases[this.#oldest]
    this.#leases[this.#oldest] = undefined
    this.#oldest += 1
    if (2 * this.#oldest > this.#leases.length) {
      this.#leases = this.#leases.slice(this.#oldest)
      this.#oldest = 0
    }
    if (lease === undefined) return
    this.#leased -= lease.hashes.length >> 1
    if (lease.generation !== (this.#generations[lease.holder] ?? 0)) return
    const wanted = this.#wanted.get(lease.holder)
    if (wanted === undefined) return
    // Whoever wants a block wants all before it, so what nobody wants any more is the end of the chain.
    const gone = new Uint32Array(lease.hashes.length)
    let goneLength = 0
    for (let i = lease.hashes.length - 2; i >= 0; i -= 2) {
      const low = lease.hashes[i] as number
      const high = lease.hashes[i + 1] as number
      if (wanted.drop(low, high) > 0) continue
      gone[goneLength++] = low
      gone[goneLength++] = high
    }
    if (wanted.size === 0) this.#wanted.delete(lease.holder)
    if (goneLength > 0) this.#index.remove(lease.holder, gone.subarray(0, goneLength))
  }
}
