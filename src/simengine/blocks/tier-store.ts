/**
 * The blocks in one memory beside the device, by hash, with a limit; the least recently used leaf is evicted first.
 *
 * A block is stored only if its parent is here, and only leaves are evicted. So every stored block is reachable from
 * its root, and events never name a parent that is not here.
 */
import type { KvTier } from '../../kv/index.ts'
import type { BlockContent } from './block-content.ts'
import type { BlockEvents } from './block-events.ts'
import { blockKey } from './block-key.ts'

export interface TierBlock {
  readonly low: number
  readonly high: number
  readonly parent: readonly [number, number] | null
  readonly content?: BlockContent
}

interface Held {
  readonly block: TierBlock
  children: number
}

export class TierStore {
  readonly #capacity: number
  readonly #tier: KvTier
  readonly #events: BlockEvents | null
  readonly #held = new Map<number, Held>()
  /** In order of last use. */
  readonly #leaves = new Set<number>()

  constructor(capacity: number, tier: KvTier, events: BlockEvents | null) {
    this.#capacity = capacity
    this.#tier = tier
    this.#events = events
  }

  get size(): number {
    return this.#held.size
  }

  get(low: number, high: number): TierBlock | undefined {
    return this.#held.get(blockKey(low, high))?.block
  }

  /** False: not stored, because its parent is not here or everything here belongs to its own chain. */
  store(block: TierBlock): boolean {
    const key = blockKey(block.low, block.high)
    if (this.#held.has(key)) {
      this.use(block.low, block.high)
      return true
    }
    const parent = this.#parentOf(block)
    if (parent === undefined) return false
    // The chain that it continues must not be evicted for it.
    if (parent !== null) this.#leaves.delete(parent)
    if (this.#held.size >= this.#capacity && !this.#giveUpOne()) {
      if (parent !== null && this.#held.get(parent)?.children === 0) this.#leaves.add(parent)
      return false
    }
    if (parent !== null) this.#held.get(parent)!.children += 1
    this.#held.set(key, { block, children: 0 })
    this.#leaves.add(key)
    const { low, high, content = null } = block
    this.#events?.stored(low, high, block.parent, this.#tier, content)
    return true
  }

  /** Marks a block as used. */
  use(low: number, high: number): void {
    const key = blockKey(low, high)
    if (this.#leaves.delete(key)) this.#leaves.add(key)
  }

  clear(): void {
    while (this.#giveUpOne());
  }

  /** The parent's key; null for a root; undefined if the parent should be here and is not. */
  #parentOf({ parent }: TierBlock): number | null | undefined {
    if (parent === null) return null
    const key = blockKey(parent[0], parent[1])
    return this.#held.has(key) ? key : undefined
  }

  #giveUpOne(): boolean {
    const [key] = this.#leaves
    if (key === undefined) return false
    const { block } = this.#held.get(key)!
    this.#leaves.delete(key)
    this.#held.delete(key)
    this.#events?.removed(block.low, block.high, this.#tier)
    const parent = this.#parentOf(block)
    if (parent === null || parent === undefined) return true
    const above = this.#held.get(parent)!
    above.children -= 1
    if (above.children === 0) this.#leaves.add(parent)
    return true
  }
}
