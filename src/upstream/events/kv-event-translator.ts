/**
 * Converts KV events of one rank of a foreign engine to Baton's: the engine's hashes are only names, and the content
 * of each block is hashed here, as the router hashes prompts.
 *
 * Owns: which cache group counts, what is part of a block's hash besides its tokens (adapter, salt, images), and the
 * salt of blocks whose event names only their parent.
 */
import { hashBlocks, hashMediaId } from '../../kv/index.ts'
import type { KvEvent, KvTier } from '../../kv/index.ts'
import type { ForeignBatch, ForeignEvent } from './kv-event-batch.ts'

type Stored = Extract<ForeignEvent, { kind: 'stored' }>

interface Names {
  readonly loraName: string | null
  readonly salt: string | null
}

/** Limit for blocks with a salt, which their descendants inherit; the oldest are dropped. */
const SALTED_MAX = 1_000_000

export interface TranslatorCounters {
  readonly stored: number
  readonly removed: number
  /** Events with a block size that the router does not use. */
  readonly otherBlockSize: number
  /** The last such size. */
  readonly otherBlockTokens: number
  /** Events of cache groups that contain no whole prefix, or of tiers that name no tokens. */
  readonly leftOut: number
  readonly unreadable: number
}

export class KvEventTranslator {
  readonly #blockTokens: number
  readonly #salted = new Map<bigint, Names>()
  #group: number | null = null
  #stored = 0
  #removed = 0
  #otherBlockSize = 0
  #otherBlockTokens = 0
  #leftOut = 0
  #unreadable = 0

  constructor(blockTokens: number) {
    this.#blockTokens = blockTokens
  }

  get counters(): TranslatorCounters {
    return {
      stored: this.#stored,
      removed: this.#removed,
      otherBlockSize: this.#otherBlockSize,
      otherBlockTokens: this.#otherBlockTokens,
      leftOut: this.#leftOut,
      unreadable: this.#unreadable,
    }
  }

  /** The publisher restarted; the counters are kept. */
  restart(): void {
    this.#salted.clear()
    this.#group = null
  }

  translate(batch: ForeignBatch): KvEvent[] {
    this.#unreadable += batch.unreadable.length
    return batch.events.flatMap((event) => {
      const translated = this.#event(event)
      return translated === null ? [] : [translated]
    })
  }

  #event(event: ForeignEvent): KvEvent | null {
    switch (event.kind) {
      case 'cleared':
        this.#salted.clear()
        return { kind: 'cleared' }
      case 'removed':
        return this.#remove(event)
      case 'stored':
        return this.#store(event)
    }
  }

  #remove({ hashes, medium, group }: Extract<ForeignEvent, { kind: 'removed' }>): KvEvent | null {
    // Without kinds the first group counts, as for stored blocks.
    if (group !== null && group !== (this.#group ?? 0)) {
      this.#leftOut += 1
      return null
    }
    const tier = tierOf(medium)
    if (tier === 'device') for (const hash of hashes) this.#salted.delete(hash)
    this.#removed += hashes.length
    return { kind: 'removed', hashes: pairsOf(hashes), tier }
  }

  #store(event: Stored): KvEvent | null {
    const { hashes, tokenIds, blockTokens } = event
    if (!this.#isPrefixGroup(event)) {
      this.#leftOut += 1
      return null
    }
    if (blockTokens !== this.#blockTokens) {
      this.#otherBlockSize += 1
      this.#otherBlockTokens = blockTokens
      return null
    }
    if (tokenIds.length !== hashes.length * blockTokens) {
      this.#leftOut += 1
      return null
    }
    const names = this.#namesOf(event)
    if (names.loraName !== null || names.salt !== null) this.#remember(hashes, names)
    const { local } = hashBlocks(Uint32Array.from(tokenIds), blockTokens, {
      ...(names.loraName === null ? {} : { loraName: names.loraName }),
      ...(names.salt === null ? {} : { salt: names.salt }),
      ...mediaOf(event),
    })
    this.#stored += hashes.length
    return {
      kind: 'stored',
      parent: event.parent === null ? null : pairOf(event.parent),
      hashes: pairsOf(hashes),
      localHashes: local,
      tier: tierOf(event.medium),
    }
  }

  /**
   * A sliding window or a recurrent state is not a prefix. Of several groups with prefixes, the first one seen
   * counts.
   */
  #isPrefixGroup({ group, groupKind }: Stored): boolean {
    if (groupKind !== null && !/full|mla/.test(groupKind)) return false
    if (group === null) return true
    if (groupKind === null) return group === 0
    this.#group ??= group
    return group === this.#group
  }

  #namesOf(event: Stored): Names {
    const { loraName } = event
    const salt = event.salt ?? saltIn(event.extraKeys[0], loraName)
    if (salt !== null || event.parent === null) return { loraName, salt }
    const parent = this.#salted.get(event.parent)
    return { loraName: loraName ?? parent?.loraName ?? null, salt: parent?.salt ?? null }
  }

  #remember(hashes: readonly bigint[], names: Names): void {
    for (const hash of hashes) this.#salted.set(hash, names)
    for (const oldest of this.#salted.keys()) {
      if (this.#salted.size <= SALTED_MAX) return
      this.#salted.delete(oldest)
    }
  }
}

/** Apart from the adapter's name and images (lists), the remaining text is the salt. */
function saltIn(keys: unknown, loraName: string | null): string | null {
  if (!Array.isArray(keys)) return null
  const texts = (keys as unknown[]).filter((key) => typeof key === 'string' && key !== '')
  const at = loraName === null ? -1 : texts.indexOf(loraName)
  const rest = texts.filter((_, i) => i !== at)
  return (rest.at(-1) as string | undefined) ?? null
}

function mediaOf({ extraKeys }: Stored): { mediaHashes?: (Uint32Array | null)[] } {
  if (!extraKeys.some((keys) => Array.isArray(keys) && keys.some(Array.isArray))) return {}
  return {
    mediaHashes: extraKeys.map((keys) => {
      if (!Array.isArray(keys)) return null
      const ids = (keys as unknown[])
        .filter((key) => Array.isArray(key))
        .map((key) => (key as unknown[])[0])
        .filter((id) => typeof id === 'string')
      return Uint32Array.from(ids.flatMap((id) => [...(hashMediaId(id) ?? [0, 0])]))
    }),
  }
}

function tierOf(medium: string): KvTier {
  if (medium === '' || medium === 'gpu' || medium === 'device') return 'device'
  return /disk|storage|ssd|file|nvme/.test(medium) ? 'disk' : 'host'
}

function pairOf(hash: bigint): readonly [number, number] {
  return [Number(hash & 0xffffffffn), Number(hash >> 32n)]
}

function pairsOf(hashes: readonly bigint[]): Uint32Array {
  return Uint32Array.from(hashes.flatMap((hash) => [...pairOf(hash)]))
}
