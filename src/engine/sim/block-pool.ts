/**
 * The KV memory of one simulated engine: a fixed number of blocks, a prefix cache over them, eviction in LRU order.
 *
 * A block is free, private (referenced, content not known by hash), or cached (has a hash). A cached block that
 * nobody references is inactive: it can be reused by hash or evicted. One hash may have several copies when two
 * requests computed the same block at once; lookups see the first one. `stored` is told for the first copy of a hash
 * only, `removed` for the last one.
 *
 * The table is keyed by 53 bits of the 64-bit hash (a number is the cheapest key); events carry all 64.
 */
import { assert } from '../../base/index.ts'
import type { BlockContent } from './block-content.ts'
import type { BlockEvents } from './block-events.ts'
import { blockKey } from './block-key.ts'

const NONE = -1

export class BlockPool {
  readonly blockCount: number
  readonly #events: BlockEvents | null
  readonly #refs: Int32Array
  readonly #low: Uint32Array
  readonly #high: Uint32Array
  readonly #isCached: Uint8Array
  /** Next copy of the same hash. */
  readonly #nextCopy: Int32Array
  /** LRU list of inactive blocks; index `blockCount` is its head and tail. */
  readonly #previous: Int32Array
  readonly #next: Int32Array
  readonly #free: Int32Array
  readonly #firstCopy = new Map<number, number>()
  #freeCount: number
  #inactiveCount = 0

  constructor(blockCount: number, events: BlockEvents | null) {
    this.blockCount = blockCount
    this.#events = events
    this.#refs = new Int32Array(blockCount)
    this.#low = new Uint32Array(blockCount)
    this.#high = new Uint32Array(blockCount)
    this.#isCached = new Uint8Array(blockCount)
    this.#nextCopy = new Int32Array(blockCount).fill(NONE)
    this.#previous = new Int32Array(blockCount + 1).fill(blockCount)
    this.#next = new Int32Array(blockCount + 1).fill(blockCount)
    this.#free = Int32Array.from({ length: blockCount }, (_, i) => blockCount - 1 - i)
    this.#freeCount = blockCount
  }

  get freeCount(): number {
    return this.#freeCount
  }

  /** Cached and referenced by nobody. */
  get inactiveCount(): number {
    return this.#inactiveCount
  }

  get activeCount(): number {
    return this.blockCount - this.#freeCount - this.#inactiveCount
  }

  /** Distinct hashes that are resident. */
  get cachedHashCount(): number {
    return this.#firstCopy.size
  }

  /** The first copy of a hash, or -1. */
  find(low: number, high: number): number {
    return this.#firstCopy.get(blockKey(low, high)) ?? NONE
  }

  isInactive(block: number): boolean {
    return this.#isCached[block] === 1 && this.#refs[block] === 0
  }

  /** One more reference to a cached block. */
  reuse(block: number): void {
    assert(this.#isCached[block] === 1, 'only a cached block is reused')
    if (this.#refs[block] === 0) this.#unlink(block)
    this.#refs[block]! += 1
  }

  /** A private block, taken from the free ones or by evicting the least recently used; -1 when all are active. */
  allocate(): number {
    if (this.#freeCount === 0) {
      const victim = this.#next[this.blockCount]!
      if (victim === this.blockCount) return NONE
      this.#evict(victim)
    }
    this.#freeCount -= 1
    const block = this.#free[this.#freeCount]!
    this.#refs[block] = 1
    return block
  }

  /** A private block has been computed: from now on it can be found by its hash. */
  publish(
    block: number,
    low: number,
    high: number,
    parent: readonly [number, number] | null,
    content: BlockContent | null = null,
  ): void {
    assert(
      this.#isCached[block] === 0 && this.#refs[block] === 1,
      'only a private block is published',
    )
    this.#isCached[block] = 1
    this.#low[block] = low
    this.#high[block] = high
    const key = blockKey(low, high)
    const first = this.#firstCopy.get(key)
    if (first === undefined) {
      this.#firstCopy.set(key, block)
      this.#events?.stored(low, high, parent, 'device', content)
      return
    }
    this.#nextCopy[block] = this.#nextCopy[first]!
    this.#nextCopy[first] = block
  }

  /** One reference less; the last one frees a private block and makes a cached one inactive. */
  release(block: number): void {
    const refs = this.#refs[block]! - 1
    assert(refs >= 0, 'a block is not released twice')
    this.#refs[block] = refs
    if (refs > 0) return
    if (this.#isCached[block] === 0) this.#free[this.#freeCount++] = block
    else this.#linkAtTail(block)
  }

  /** Forgets everything that nobody uses; returns the number of blocks freed. */
  evictInactive(): number {
    let count = 0
    for (;;) {
      const victim = this.#next[this.blockCount]!
      if (victim === this.blockCount) return count
      this.#evict(victim)
      count += 1
    }
  }

  #evict(block: number): void {
    this.#unlink(block)
    this.#isCached[block] = 0
    const low = this.#low[block]!
    const high = this.#high[block]!
    const key = blockKey(low, high)
    const after = this.#nextCopy[block]!
    let copy = this.#firstCopy.get(key)!
    if (copy === block) {
      if (after === NONE) {
        this.#firstCopy.delete(key)
        this.#events?.removed(low, high)
      } else this.#firstCopy.set(key, after)
    } else {
      while (this.#nextCopy[copy] !== block) copy = this.#nextCopy[copy]!
      this.#nextCopy[copy] = after
    }
    this.#nextCopy[block] = NONE
    this.#free[this.#freeCount++] = block
  }

  #linkAtTail(block: number): void {
    const end = this.blockCount
    const tail = this.#previous[end]!
    this.#next[tail] = block
    this.#previous[block] = tail
    this.#next[block] = end
    this.#previous[end] = block
    this.#inactiveCount += 1
  }

  #unlink(block: number): void {
    const previous = this.#previous[block]!
    const next = this.#next[block]!
    this.#next[previous] = next
    this.#previous[next] = previous
    this.#inactiveCount -= 1
  }
}
