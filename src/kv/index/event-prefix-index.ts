/**
 * The prefix index built from KV events: one run index per storage tier, and the translation of engine hashes.
 *
 * Owns which tier an event belongs to, the translation of engines' hashes to Baton's sequence hashes, and the order
 * of tiers in a query. Indexes of host and disk are created with their first event.
 */
import { chainSequence } from '../hash/block-hash.ts'
import { HolderNames } from './holder-names.ts'
import type { HashPair } from '../hash/hash-pair.ts'
import type { KvEvent, KvTier } from '../events/kv-event.ts'
import type { ApplyOutcome, PrefixIndex, PrefixIndexStats } from '../prefix/prefix-index.ts'
import type { PrefixMatches } from '../prefix/prefix-matches.ts'
import { AHEAD_MAX } from '../loose/loose-table.ts'
import { RunIndex } from '../runs/run-index.ts'
import { WaitingRemovals } from './waiting-removals.ts'

type Stored = Extract<KvEvent, { kind: 'stored' }>
type Removed = Extract<KvEvent, { kind: 'removed' }>

export interface EventPrefixIndexOptions {
  /** Memory limit in bytes; when it is reached the oldest chains are evicted. */
  readonly bytesMax?: number
  /** Limit of distinct blocks in runs per tier; 11 bytes of address space (not memory) are reserved for each. */
  readonly blocksMax?: number
  /** See `RunIndexOptions`. */
  readonly scanFreeBlocks?: number
  readonly passPartBlocks?: number
}

const BYTES_MAX_DEFAULT = 1 << 29
const BLOCKS_MIN = 1 << 12
const BLOCKS_MAX = 1 << 25
/** Minimum memory of a block in a run. */
const BLOCK_BYTES_MIN = 8
/** Memory use is checked after this many stored blocks. */
const LOOK_BLOCKS = 1024
/** Limit of blocks in consecutive removals that are applied as one. */
const MERGED_MAX = 1024
const TIER_BIT = { device: 1, host: 2, disk: 4 } as const satisfies Record<KvTier, number>

export class EventPrefixIndex implements PrefixIndex {
  readonly #blocksMax: number
  readonly #device: RunIndex
  #host: RunIndex | null = null
  #disk: RunIndex | null = null
  /** Of engines whose hashes are not Baton's. */
  readonly #names = new HolderNames()
  #holderCount = 0
  #refused = 0
  readonly #bytesMax: number
  #storedSinceLook = 0
  readonly #merged = new Uint32Array(2 * MERGED_MAX)
  /** Removals from the device tier that `applyAll` has accepted but not applied. */
  readonly #waiting = new WaitingRemovals()
  /** Scratch: hashes to prefetch. */
  readonly #ahead = new Uint32Array(2 * AHEAD_MAX)

  constructor(options: EventPrefixIndexOptions = {}) {
    this.#bytesMax = options.bytesMax ?? BYTES_MAX_DEFAULT
    const mostBlocks = Math.ceil(this.#bytesMax / BLOCK_BYTES_MIN)
    this.#blocksMax = options.blocksMax ?? Math.min(BLOCKS_MAX, Math.max(BLOCKS_MIN, mostBlocks))
    this.#device = new RunIndex({ ...options, blocksMax: this.#blocksMax, hasOrphans: false })
  }

  /** The index of the device tier, for statistics. */
  get device(): RunIndex {
    this.#settle()
    return this.#device
  }

  apply(holder: number, event: KvEvent): ApplyOutcome {
    if (this.#wait(holder, event)) return 'applied'
    this.#settle()
    return this.#apply(holder, event)
  }

  #apply(holder: number, event: KvEvent): ApplyOutcome {
    if (holder >= this.#holderCount) this.#holderCount = holder + 1
    switch (event.kind) {
      case 'stored': {
        this.#keepWithinBytes(event.hashes.length >> 1)
        const outcome = this.#store(holder, event)
        if (outcome !== 'applied') this.#refused += 1
        return outcome
      }
      case 'removed':
        this.#remove(holder, event)
        return 'applied'
      case 'cleared':
        this.removeHolder(holder)
        return 'applied'
    }
  }

  /**
   * Applies a holder's events in order; returns how many were rejected. Faster than one by one, because the memory
   * that short events need is prefetched.
   */
  applyAll(holder: number, events: readonly KvEvent[]): number {
    if (events.length === 1) return this.apply(holder, events[0] as KvEvent) === 'applied' ? 0 : 1
    this.#settle()
    const refusedBefore = this.#refused
    for (let i = 0; i < events.length;) {
      const removals = this.#removalsFrom(events, i)
      if (removals > 1) {
        this.#removeAll(holder, events, i, i + removals)
        i += removals
        continue
      }
      const stop = this.#lookAhead(holder, events, i)
      for (; i < stop; i++) this.#apply(holder, events[i] as KvEvent)
    }
    return this.#refused - refusedBefore
  }

  /** Lets the removal of one block wait for others (`WaitingRemovals`); false if the event is something else. */
  #wait(holder: number, event: KvEvent): boolean {
    if (event.kind !== 'removed') return false
    const { hashes, tier } = event
    if (hashes.length !== 2 || tier !== 'device') return false
    if (holder >= this.#holderCount) this.#holderCount = holder + 1
    const low = hashes[0] as number
    const high = hashes[1] as number
    if (this.#names.count === 0 && this.#device.defer(holder, low | 0, high | 0)) return true
    this.#waiting.add(holder, low, high)
    if (this.#waiting.isFull) this.#settle()
    return true
  }

  /** Applies the removals that wait. */
  #settle(): void {
    const { count, holders, hashes } = this.#waiting
    if (count === 0) return
    this.#waiting.clear()
    // Names first, so that the reads of all rows overlap, too.
    if (this.#names.count > 0) this.#names.takeEach(holders, hashes, 0, count, TIER_BIT.device)
    this.#device.removeEach(holders, hashes, count)
  }

  /**
   * Number of events from `i` on that are removals from the same tier. They are applied as one event, because the
   * order of hashes within a removal does not matter.
   */
  #removalsFrom(events: readonly KvEvent[], i: number): number {
    const first = events[i] as KvEvent
    if (first.kind !== 'removed') return 0
    let blocks = 0
    let k = i
    for (; k < events.length; k++) {
      const event = events[k] as KvEvent
      if (event.kind !== 'removed' || event.tier !== first.tier) break
      blocks += event.hashes.length >> 1
      if (blocks > MERGED_MAX) break
    }
    return k - i
  }

  #removeAll(holder: number, events: readonly KvEvent[], from: number, to: number): void {
    if (holder >= this.#holderCount) this.#holderCount = holder + 1
    const merged = this.#merged
    let words = 0
    for (let i = from; i < to; i++) {
      const { hashes } = events[i] as Removed
      for (let k = 0; k < hashes.length; k++) merged[words++] = hashes[k] as number
    }
    const { tier } = events[from] as Removed
    this.#names.take(holder, merged, 0, words >> 1, TIER_BIT[tier])
    this.#tier(tier).remove(holder, merged.subarray(0, words))
  }

  /**
   * Prefetches the data of the next events into the CPU cache; returns the index where it stopped, at least one
   * further.
   */
  #lookAhead(holder: number, events: readonly KvEvent[], from: number): number {
    const ahead = this.#ahead
    let count = 0
    let i = from
    for (; i < events.length; i++) {
      const event = events[i] as KvEvent
      if (event.kind === 'cleared') break
      const parent = event.kind === 'stored' ? event.parent : null
      const { hashes } = event
      if (count + (hashes.length >> 1) + 1 > AHEAD_MAX) break
      if (parent !== null) {
        ahead[2 * count] = parent[0]
        ahead[2 * count + 1] = parent[1]
        count += 1
      }
      for (let k = 0; k < hashes.length; k++) ahead[2 * count + k] = hashes[k] as number
      count += hashes.length >> 1
    }
    if (i - from > 1 && this.#names.of(holder) === undefined)
      this.#device.lookAhead.touch(ahead, 0, count)
    return Math.max(i, from + 1)
  }

  removeHolder(holder: number): void {
    this.#settle()
    this.#device.removeHolder(holder)
    this.#host?.removeHolder(holder)
    this.#disk?.removeHolder(holder)
    this.#names.delete(holder)
  }

  /** A small part of the work that waits for the next event; call now and then, also if there are no events. */
  tend(): void {
    this.#settle()
    // Each routing decision calls it: no list of the tiers is made.
    this.#device.tend()
    this.#host?.tend()
    this.#disk?.tend()
  }

  find(sequenceHashes: Uint32Array, matches: PrefixMatches): void {
    this.#settle()
    matches.clear()
    matches.reserve(this.#holderCount)
    this.#device.find(sequenceHashes, matches)
    this.#host?.extension.extend(sequenceHashes, matches, matches.host, null)
    this.#disk?.extension.extend(sequenceHashes, matches, matches.disk, matches.host)
  }

  stats(): PrefixIndexStats {
    this.#settle()
    const tiers = this.#tiers
    for (const tier of tiers) tier.settle()
    const sum = (figure: (tier: RunIndex) => number): number =>
      tiers.reduce((total, tier) => total + figure(tier), 0)
    return {
      entries: sum((tier) => tier.entries),
      blocks: sum((tier) => tier.blocks),
      bytes: this.#names.bytes + sum((tier) => tier.bytes),
      refused: this.#refused,
      givenUp: sum((tier) => tier.eviction.given),
    }
  }

  get #tiers(): RunIndex[] {
    return [this.#device, this.#host, this.#disk].filter((tier) => tier !== null)
  }

  /**
   * Evicts the oldest chains of the largest tier until the memory is within its limit. Pages freed by runs can only
   * be used by runs again: if they are many, they are returned, and if nothing else can be gained, loose blocks are
   * evicted.
   */
  #keepWithinBytes(blocks: number): void {
    this.#storedSinceLook += blocks
    if (this.#storedSinceLook < LOOK_BLOCKS) return
    this.#storedSinceLook = 0
    const bytesMax = this.#bytesMax - this.#names.bytes
    for (;;) {
      const tiers = this.#tiers.toSorted((a, b) => b.bytesNeeded - a.bytesNeeded)
      const bytes = tiers.reduce((sum, tier) => sum + tier.bytesNeeded, 0)
      if (bytes <= bytesMax) return
      if (tiers.some((tier) => tier.release.hurry())) continue
      const reusable = tiers.reduce((sum, tier) => sum + tier.reusableBytes, 0)
      const hasGone =
        bytes - reusable > bytesMax
          ? tiers.some((tier) => tier.eviction.evict())
          : tiers.some((tier) => tier.eviction.evictLoose())
      if (!hasGone) return
    }
  }

  #tier(tier: KvTier): RunIndex {
    switch (tier) {
      case 'device':
        return this.#device
      case 'host':
        return (this.#host ??= this.#lowerTier())
      case 'disk':
        return (this.#disk ??= this.#lowerTier())
    }
  }

  #lowerTier(): RunIndex {
    return new RunIndex({ blocksMax: this.#blocksMax, hasOrphans: true })
  }

  #store(holder: number, event: Stored): ApplyOutcome {
    const { parent, hashes, localHashes, tier } = event
    if (parent !== null && includes(hashes, parent)) return 'invalid'
    const isEngineNamed = localHashes.length > 0
    if (!isEngineNamed && this.#names.count === 0) {
      return this.#tier(tier).store(holder, parent, hashes)
    }
    if (isEngineNamed && localHashes.length !== hashes.length) return 'invalid'
    const names = this.#names.of(holder)
    const isNamed = parent !== null && names?.find(parent[0], parent[1]) === true
    const ownParent = isNamed && names !== undefined ? ([names.low, names.high] as const) : parent
    if (!isEngineNamed) return this.#tier(tier).store(holder, ownParent, hashes)

    const own = chainSequence(localHashes, ownParent)
    const isOwnChain = own[0] === hashes[0] && own[1] === hashes[1]
    // After an unknown parent, only sequence hashes that are Baton's own can be inserted.
    if (!isOwnChain && !isNamed && ownParent !== null && !this.#holds(holder, ownParent)) {
      return 'parent-not-found'
    }
    const outcome = this.#tier(tier).store(holder, ownParent, own)
    if (outcome === 'applied') this.#names.add(holder, hashes, own, TIER_BIT[tier])
    return outcome
  }

  #holds(holder: number, hash: HashPair): boolean {
    return [this.#device, this.#host, this.#disk].some(
      (tier) => tier?.holds(holder, hash[0], hash[1]) === true,
    )
  }

  #remove(holder: number, { hashes, tier }: Removed): void {
    let own = hashes
    if (this.#names.of(holder) !== undefined) {
      own = hashes.slice()
      this.#names.take(holder, own, 0, own.length >> 1, TIER_BIT[tier])
    }
    this.#tier(tier).remove(holder, own)
  }
}

function includes(hashes: Uint32Array, hash: HashPair): boolean {
  // Signed, because V8 compares large unsigned words as floating-point numbers.
  const low = hash[0] | 0
  const high = hash[1] | 0
  for (let i = 0; i < hashes.length; i += 2) {
    if (((hashes[i] as number) | 0) === low && ((hashes[i + 1] as number) | 0) === high) return true
  }
  return false
}
