/**
 * An engine's cache as a tree of blocks, and a router that follows its KV events: for tests that compare both.
 */
import { randomInt } from '../src/base/index.ts'
import type { Random } from '../src/base/index.ts'
import type { KvEvent, KvEventBatch, KvTier } from '../src/kv/index.ts'

type Pair = readonly [number, number]

const TIERS: readonly KvTier[] = ['device', 'host', 'disk']

interface Block {
  readonly hash: Pair
  readonly parent: Block | null
  readonly tier: KvTier
  children: number
  copies: number
}

/** Blocks are stored after blocks that are held, and removed before them, as in an engine. */
export class CachedBlocks {
  readonly #random: Random
  readonly #options: { readonly isNamed: boolean; readonly hasCopies: boolean }
  #blocks: Block[] = []
  #made = 0

  /** `isNamed`: the engine has hashes of its own. `hasCopies`: it reports a block again, and each copy's removal. */
  constructor(random: Random, options: { isNamed: boolean; hasCopies: boolean }) {
    this.#random = random
    this.#options = options
  }

  /** In the form of `FollowedBlocks.blocks`. */
  get names(): string[] {
    return this.#blocks.map(nameOf).sort()
  }

  /** The state as events, as `Engine.heldKv` returns it. */
  held(): KvEvent[] {
    return this.#blocks.map((block) => this.#stored(block.parent, [block]))
  }

  change(): KvEvent[] {
    const what = randomInt(this.#random, 100)
    if (what === 0) return this.#clear()
    if (what < 55) return this.store(1 + randomInt(this.#random, 6))
    if (what < 65 && this.#options.hasCopies) return this.#storeAgain()
    return this.#remove()
  }

  store(length: number): KvEvent[] {
    const known = this.#any()
    let parent = randomInt(this.#random, 4) === 0 ? null : known
    const tier = parent?.tier ?? (TIERS[randomInt(this.#random, 3)] as KvTier)
    const first = parent
    const chain: Block[] = []
    for (let i = 0; i < length; i++) {
      const hash = [++this.#made, randomInt(this.#random, 2)] as const
      const block: Block = { hash, parent, tier, children: 0, copies: 1 }
      if (parent !== null) parent.children++
      this.#blocks.push(block)
      chain.push(block)
      parent = block
    }
    return [this.#stored(first, chain)]
  }

  #storeAgain(): KvEvent[] {
    const block = this.#any()
    if (block === null) return []
    block.copies++
    return [this.#stored(block.parent, [block])]
  }

  #remove(): KvEvent[] {
    const hashes: number[] = []
    let tier: KvTier = 'device'
    for (let block = this.#any(); block !== null && block.children === 0 && hashes.length < 8;) {
      tier = block.tier
      hashes.push(...block.hash)
      block.copies--
      if (block.copies > 0) break
      this.#blocks.splice(this.#blocks.indexOf(block), 1)
      if (block.parent !== null) block.parent.children--
      block = block.parent
    }
    if (hashes.length === 0) return []
    return [{ kind: 'removed', hashes: Uint32Array.from(hashes), tier }]
  }

  #clear(): KvEvent[] {
    this.#blocks = []
    return [{ kind: 'cleared' }]
  }

  #any(): Block | null {
    return this.#blocks[randomInt(this.#random, Math.max(1, this.#blocks.length))] ?? null
  }

  #stored(parent: Block | null, chain: readonly Block[]): KvEvent {
    const hashes = chain.flatMap(({ hash }) => hash)
    return {
      kind: 'stored',
      parent: parent?.hash ?? null,
      hashes: Uint32Array.from(hashes),
      localHashes: Uint32Array.from(this.#options.isNamed ? hashes.map((half) => half + 7) : []),
      tier: chain[0]?.tier ?? 'device',
    }
  }
}

const nameOf = ({ hash, tier }: Block): string => `${tier} ${hash[0]}:${hash[1]}`

/** Refuses blocks whose parent it does not know, as an index does, and those with wrong local hashes. */
export class FollowedBlocks {
  readonly #blocks = new Set<string>()
  refused = 0

  get names(): string[] {
    return [...this.#blocks.keys()].sort()
  }

  take({ events }: Pick<KvEventBatch, 'events'>): void {
    for (const event of events) this.#apply(event)
  }

  #apply(event: KvEvent): void {
    if (event.kind === 'cleared') {
      this.#blocks.clear()
      return
    }
    const { hashes, tier } = event
    if (event.kind === 'stored') {
      const { parent, localHashes } = event
      if (parent !== null && !this.#blocks.has(`${tier} ${parent[0]}:${parent[1]}`)) {
        this.refused++
        return
      }
      if (localHashes.some((half, i) => half !== (hashes[i] as number) + 7)) this.refused++
    }
    for (let i = 0; i < hashes.length; i += 2) {
      const name = `${tier} ${hashes[i]}:${hashes[i + 1]}`
      if (event.kind === 'stored') this.#blocks.add(name)
      else this.#blocks.delete(name)
    }
  }
}
