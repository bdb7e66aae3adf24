/**
 * Collects the changes to cached blocks during one engine step as the smallest ordered list of KV events.
 *
 * Consecutive stored blocks, each the child of the previous one, become one event; so do consecutive removed ones.
 */
import type { KvTier } from '../../kv/index.ts'
import type { BlockContent, SimKvEvent } from './block-content.ts'

const NO_LOCAL_HASHES = new Uint32Array(0)

export class BlockEvents {
  #events: SimKvEvent[] = []
  #kind: 'stored' | 'removed' | null = null
  /** Hashes of the event being collected; the first `#length` numbers are valid. */
  #hashes = new Uint32Array(64)
  #length = 0
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
    this.#push(low, high)
    if (content !== null) this.#contents.push(content)
  }

  /** Records the block with hash `index` of a chain; its parent is the previous one. */
  storedChain(hashes: ArrayLike<number>, index: number, content: BlockContent | null): void {
    const low = hashes[2 * index]!
    const high = hashes[2 * index + 1]!
    const end = this.#length
    const follows =
      index > 0 &&
      this.#kind === 'stored' &&
      this.#tier === 'device' &&
      hashes[2 * index - 2] === this.#hashes[end - 2] &&
      hashes[2 * index - 1] === this.#hashes[end - 1]
    if (!follows) {
      const parent =
        index === 0 ? null : ([hashes[2 * index - 2]!, hashes[2 * index - 1]!] as const)
      this.stored(low, high, parent, 'device', content)
      return
    }
    this.#push(low, high)
    if (content !== null) this.#contents.push(content)
  }

  removed(low: number, high: number, tier: KvTier = 'device'): void {
    if (this.#kind !== 'removed' || this.#tier !== tier) {
      this.#close()
      this.#kind = 'removed'
      this.#tier = tier
    }
    this.#push(low, high)
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
    const end = this.#length
    return parent[0] === hashes[end - 2] && parent[1] === hashes[end - 1]
  }

  #push(low: number, high: number): void {
    if (this.#length === this.#hashes.length) {
      const larger = new Uint32Array(2 * this.#length)
      larger.set(this.#hashes)
      this.#hashes = larger
    }
    this.#hashes[this.#length++] = low
    this.#hashes[this.#length++] = high
  }

  #close(): void {
    if (this.#kind === null) return
    const hashes = this.#hashes.slice(0, this.#length)
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
    this.#length = 0
    if (this.#contents.length > 0) this.#contents = []
  }
}
