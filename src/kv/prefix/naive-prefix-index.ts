/**
 * The test oracle for prefix indexes: sets of text keys, slow, but simple enough to be verified by reading.
 *
 * All other indexes are compared with it. It has no limits.
 */
import { chainSequence } from '../hash/block-hash.ts'
import type { KvEvent, KvTier } from '../events/kv-event.ts'
import type { ApplyOutcome, PrefixIndex, PrefixIndexStats } from './prefix-index.ts'
import type { PrefixMatches } from './prefix-matches.ts'

type Key = string
type Stored = Extract<KvEvent, { kind: 'stored' }>
type Removed = Extract<KvEvent, { kind: 'removed' }>

interface Holding {
  readonly device: Set<Key>
  readonly host: Set<Key>
  readonly disk: Set<Key>
  /** Engine hash → Baton's hash if they differ, and the tiers in which the engine hash is used. */
  readonly names: Map<Key, { readonly key: Key; readonly tiers: Set<KvTier> }>
}

const keyOf = (pairs: ArrayLike<number>, i: number): Key =>
  `${(pairs[2 * i] ?? 0) >>> 0}:${(pairs[2 * i + 1] ?? 0) >>> 0}`

const keysOf = (pairs: Uint32Array): Key[] =>
  Array.from({ length: pairs.length >> 1 }, (_, i) => keyOf(pairs, i))

const pairOf = (key: Key): [number, number] => {
  const [low, high] = key.split(':')
  return [Number(low), Number(high)]
}

export class NaivePrefixIndex implements PrefixIndex {
  readonly #holdings = new Map<number, Holding>()
  #refused = 0

  apply(holder: number, event: KvEvent): ApplyOutcome {
    const outcome = this.#apply(holder, event)
    if (outcome !== 'applied') this.#refused += 1
    return outcome
  }

  #apply(holder: number, event: KvEvent): ApplyOutcome {
    switch (event.kind) {
      case 'stored':
        return this.#store(this.#holding(holder), event)
      case 'removed':
        this.#remove(this.#holding(holder), event)
        return 'applied'
      case 'cleared':
        this.removeHolder(holder)
        return 'applied'
    }
  }

  #holding(holder: number): Holding {
    let holding = this.#holdings.get(holder)
    if (holding === undefined) {
      holding = { device: new Set(), host: new Set(), disk: new Set(), names: new Map() }
      this.#holdings.set(holder, holding)
    }
    return holding
  }

  #store(holding: Holding, event: Stored): ApplyOutcome {
    const { parent, hashes, localHashes, tier } = event
    const given = keysOf(hashes)
    const givenParent = parent === null ? null : keyOf(parent, 0)
    const isEngineNamed = localHashes.length > 0
    if (isEngineNamed && localHashes.length !== hashes.length) return 'invalid'
    if (givenParent !== null && given.includes(givenParent)) return 'invalid'
    const named = givenParent === null ? undefined : holding.names.get(givenParent)
    const ownParent = named?.key ?? givenParent
    if (tier === 'device' && ownParent !== null && !holding.device.has(ownParent)) {
      return 'parent-not-found'
    }
    const own = isEngineNamed
      ? keysOf(chainSequence(localHashes, ownParent === null ? null : pairOf(ownParent)))
      : given
    // After an unknown parent, only sequence hashes that are Baton's own can be inserted.
    const isParentKnown = named !== undefined || ownParent === null || this.#has(holding, ownParent)
    if (!isParentKnown && own[0] !== given[0]) return 'parent-not-found'
    own.forEach((key, i) => {
      const name = given[i] ?? ''
      holding[tier].add(key)
      if (name === key) return
      const known = holding.names.get(name)
      if (known?.key === key) known.tiers.add(tier)
      else holding.names.set(name, { key, tiers: new Set([tier]) })
    })
    return 'applied'
  }

  #has(holding: Holding, key: Key): boolean {
    return holding.device.has(key) || holding.host.has(key) || holding.disk.has(key)
  }

  #remove(holding: Holding, event: Removed): void {
    for (const given of keysOf(event.hashes)) {
      const named = holding.names.get(given)
      holding[event.tier].delete(named?.key ?? given)
      named?.tiers.delete(event.tier)
      if (named?.tiers.size === 0) holding.names.delete(given)
    }
  }

  removeHolder(holder: number): void {
    this.#holdings.delete(holder)
  }

  find(sequenceHashes: Uint32Array, matches: PrefixMatches): void {
    matches.clear()
    matches.hasLower = true
    const keys = keysOf(sequenceHashes)
    for (const [holder, holding] of this.#holdings) {
      matches.reserve(holder + 1)
      let end = 0
      const countFrom = (tier: Set<Key>): number => {
        const begin = end
        while (end < keys.length && tier.has(keys[end] ?? '')) end += 1
        return end - begin
      }
      matches.device[holder] = countFrom(holding.device)
      matches.host[holder] = countFrom(holding.host)
      matches.disk[holder] = countFrom(holding.disk)
      if (end > 0) matches.add(holder)
    }
  }

  stats(): PrefixIndexStats {
    const blocks = { device: new Set<Key>(), host: new Set<Key>(), disk: new Set<Key>() }
    let entries = 0
    for (const holding of this.#holdings.values()) {
      for (const tier of ['device', 'host', 'disk'] as const) {
        entries += holding[tier].size
        for (const key of holding[tier]) blocks[tier].add(key)
      }
    }
    const blockCount = blocks.device.size + blocks.host.size + blocks.disk.size
    return { entries, blocks: blockCount, bytes: 0, refused: this.#refused, givenUp: 0 }
  }
}
