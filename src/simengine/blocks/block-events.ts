/**
 * Collects what happened to the cached blocks during one engine step as the fewest KV events that say it in order.
 *
 * A run of stored blocks, each the child of the one before, becomes one event; so does a run of removed ones.
 */
import type { KvTier } from '../../kv/index.ts'
import type { BlockContent, SimKvEvent } from './block-content.ts'

const NO_LOCAL_HASHES = new Uint32Array(0)

export class BlockEvents {
  #events: SimKvEvent[] = []
  #kind: 'stored' | 'removed' | null = null
  #hashes: number[] = []
  #parent: readonly [number, number] | null = null
  #tier: KvTier = 'device'
  #contents: BlockContent[] = []

  stored(
    low: number,
    high: number,
    parent: readonly [number, number] | null,
    tier: KvTier = 'device',
    content: BlockContent | null = null,
  ): void {
    if (this.#tier !== tier || !this.#continues(parent)) {
      this.#close()
      this.#kind = 'stored'
      this.#parent = parent === null ? null : [parent[0], parent[1]]
      this.#tier = tier
    }
    this.#hashes.push(low, high)
    if (content !== null) this.#contents.push(content)
  }

  removed(low: number, high: number, tier: KvTier = 'device'): void {
    if (this.#kind !== 'removed' || this.#tier !== tier) {
      this.#close()
      this.#kind = 'removed'
      this.#tier = tier
    }
    this.#hashes.push(low, high)
  }

  cleared(): void {
    this.#close()
    this.#events.push({ kind: 'cleared' })
  }

  /** The events since the last call. */
  take(): readonly SimKvEvent[] {
    this.#close()
    const events = this.#events
    if (events.length > 0) this.#events = []
    return events
  }

  #continues(parent: readonly [number, number] | null): boolean {
    if (this.#kind !== 'stored' || parent === null) return false
    const hashes = this.#hashes
    const end = hashes.length
    return parent[0] === hashes[end - 2] && parent[1] === hashes[end - 1]
  }

  #close(): void {
    if (this.#kind === null) return
    // Not `from`, which goes through an iterator.
    const hashes = new Uint32Array(this.#hashes)
    const tier = this.#tier
    if (this.#kind === 'removed') this.#events.push({ kind: 'removed', hashes, tier })
    else {
      this.#events.push({
        kind: 'stored',
        parent: this.#parent,
        hashes,
        localHashes: NO_LOCAL_HASHES,
        tier,
        ...(this.#contents.length === 0 ? {} : { contents: this.#contents }),
      })
    }
    this.#kind = null
    this.#hashes = []
    if (this.#contents.length > 0) this.#contents = []
  }
}
