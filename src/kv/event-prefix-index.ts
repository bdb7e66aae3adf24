/**
 * The prefix index that is kept by KV events: one run index for each storage tier, and the engines' own names.
 *
 * Owns: which tier an event belongs to, the translation of engines' hashes to Baton's chain, and the order of tiers
 * in a query. The lower tiers come into being with their first event.
 */
import { chainSequence } from './block-hash.ts'
import { EngineNames } from './engine-names.ts'
import type { HashPair } from './hash-pair.ts'
import type { KvEvent, KvTier } from './kv-event.ts'
import type { ApplyOutcome, PrefixIndex, PrefixIndexStats } from './prefix-index.ts'
import type { PrefixMatches } from './prefix-matches.ts'
import { RunIndex } from './run-index.ts'

type Stored = Extract<KvEvent, { kind: 'stored' }>
type Removed = Extract<KvEvent, { kind: 'removed' }>

export interface EventPrefixIndexOptions {
  /** Different blocks of each tier; 8 bytes are reserved (not used) for each. */
  readonly blocksMax?: number
  /** See `RunIndexOptions`. */
  readonly scanFreeBlocks?: number
}

const BLOCKS_MAX_DEFAULT = 1 << 23
const TIER_BIT = { device: 1, host: 2, disk: 4 } as const satisfies Record<KvTier, number>

export class EventPrefixIndex implements PrefixIndex {
  readonly #blocksMax: number
  readonly #device: RunIndex
  #host: RunIndex | null = null
  #disk: RunIndex | null = null
  /** By holder; only for engines whose hashes are not Baton's chain. */
  readonly #names = new Map<number, EngineNames>()
  #holderCount = 0
  #refused = 0

  constructor(options: EventPrefixIndexOptions = {}) {
    this.#blocksMax = options.blocksMax ?? BLOCKS_MAX_DEFAULT
    const { scanFreeBlocks } = options
    this.#device = new RunIndex({
      blocksMax: this.#blocksMax,
      hasOrphans: false,
      ...(scanFreeBlocks === undefined ? {} : { scanFreeBlocks }),
    })
  }

  /** The device tier, for figures. */
  get device(): RunIndex {
    return this.#device
  }

  apply(holder: number, event: KvEvent): ApplyOutcome {
    if (holder >= this.#holderCount) this.#holderCount = holder + 1
    switch (event.kind) {
      case 'stored': {
        const outcome = this.#store(holder, event)
        if (outcome !== 'applied') this.#refused += 1
        return outcome
      }
      case 'removed':
        return this.#remove(holder, event)
      case 'cleared':
        this.removeHolder(holder)
        return 'applied'
    }
  }

  removeHolder(holder: number): void {
    this.#device.removeHolder(holder)
    this.#host?.removeHolder(holder)
    this.#disk?.removeHolder(holder)
    this.#names.delete(holder)
  }

  find(sequenceHashes: Uint32Array, matches: PrefixMatches): void {
    matches.clear()
    matches.reserve(this.#holderCount)
    this.#device.find(sequenceHashes, matches)
    this.#host?.extend(sequenceHashes, matches, matches.host, null)
    this.#disk?.extend(sequenceHashes, matches, matches.disk, matches.host)
  }

  stats(): PrefixIndexStats {
    const tiers = [this.#device, this.#host, this.#disk].filter((tier) => tier !== null)
    const sum = (figure: (tier: RunIndex) => number): number =>
      tiers.reduce((total, tier) => total + figure(tier), 0)
    let nameBytes = 0
    for (const names of this.#names.values()) nameBytes += names.bytes
    return {
      entries: sum((tier) => tier.entries),
      blocks: sum((tier) => tier.blocks),
      bytes: nameBytes + sum((tier) => tier.bytes),
      refused: this.#refused,
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
    if (!isEngineNamed && this.#names.size === 0) {
      return this.#tier(tier).store(holder, parent, hashes)
    }
    if (isEngineNamed && localHashes.length !== hashes.length) return 'invalid'
    const names = this.#names.get(holder)
    const isNamed = parent !== null && names?.find(parent[0], parent[1]) === true
    const ownParent = isNamed && names !== undefined ? ([names.low, names.high] as const) : parent
    if (!isEngineNamed) return this.#tier(tier).store(holder, ownParent, hashes)

    const own = chainSequence(localHashes, ownParent)
    const isOwnChain = own[0] === hashes[0] && own[1] === hashes[1]
    // Behind a parent that nobody can name, only Baton's own chain can be placed.
    if (!isOwnChain && !isNamed && ownParent !== null && !this.#holds(holder, ownParent)) {
      return 'parent-not-found'
    }
    const outcome = this.#tier(tier).store(holder, ownParent, own)
    if (outcome === 'applied') this.#remember(holder, hashes, own, TIER_BIT[tier])
    return outcome
  }

  #holds(holder: number, hash: HashPair): boolean {
    return [this.#device, this.#host, this.#disk].some(
      (tier) => tier?.holds(holder, hash[0], hash[1]) === true,
    )
  }

  /** Remembers the engine's names where they differ from Baton's. */
  #remember(holder: number, given: Uint32Array, own: Uint32Array, tierBit: number): void {
    let names = this.#names.get(holder)
    for (let i = 0; i < own.length; i += 2) {
      const low = own[i] as number
      const high = own[i + 1] as number
      if (given[i] === low && given[i + 1] === high) continue
      if (names === undefined) {
        names = new EngineNames()
        this.#names.set(holder, names)
      }
      names.add(given[i] as number, given[i + 1] as number, low, high, tierBit)
    }
  }

  #remove(holder: number, event: Removed): ApplyOutcome {
    const names = this.#names.size === 0 ? undefined : this.#names.get(holder)
    if (names === undefined) return this.#tier(event.tier).remove(holder, event.hashes)
    const own = event.hashes.slice()
    for (let i = 0; i < own.length; i += 2) {
      const low = own[i] as number
      const high = own[i + 1] as number
      if (!names.find(low, high)) continue
      own[i] = names.low
      own[i + 1] = names.high
      names.drop(low, high, TIER_BIT[event.tier])
    }
    if (names.count === 0) this.#names.delete(holder)
    return this.#tier(event.tier).remove(holder, own)
  }
}

function includes(hashes: Uint32Array, hash: HashPair): boolean {
  const low = hash[0] >>> 0
  const high = hash[1] >>> 0
  for (let i = 0; i < hashes.length; i += 2) {
    if (hashes[i] === low && hashes[i + 1] === high) return true
  }
  return false
}
