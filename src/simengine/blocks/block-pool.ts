/**
 * The KV memory of one simulated engine: a fixed number of blocks, a prefix cache over them, eviction in LRU order.
 *
 * A block is free, private (referenced, content not known by hash), or cached (has a hash). A cached block that
 * no sequence references is inactive: it can be reused by hash or evicted. One hash may have several copies when two
 * requests computed the same block at once; lookups see the first one. `stored` is reported for the first copy of a hash
 * only, `removed` for the last one.
 *
 * The table is keyed by all 64 bits of a hash.
 */
import { assert } from '../../base/index.ts'
import type { BlockContent, SimKvEvent } from './block-content.ts'
import { BlockEvents } from './block-events.ts'
import { BlockTable } from './block-table.ts'

const NONE = -1
/** Head and tail of the LRU list; blocks are numbered from 1. */
const END = 0
const CAPACITY_FIRST = 64
const ROOT = 1
const CHILD = 2

export class BlockPool {
  readonly blockCount: number
  readonly #events: BlockEvents | null
  // The columns grow with the blocks that were ever used: thousands of idle engines must fit into one process.
  #refs = new Int32Array(CAPACITY_FIRST)
  #low = new Uint32Array(CAPACITY_FIRST)
  #high = new Uint32Array(CAPACITY_FIRST)
  /** 0, or whether there is a parent (`CHILD`) or none (`ROOT`). */
  #isCached = new Uint8Array(CAPACITY_FIRST)
  #parentLow = new Uint32Array(CAPACITY_FIRST)
  #parentHigh = new Uint32Array(CAPACITY_FIRST)
  /** Next copy of the same hash; 0: none. */
  #nextCopy = new Int32Array(CAPACITY_FIRST)
  /** LRU list of inactive blocks. */
  #previous = new Int32Array(CAPACITY_FIRST)
  #next = new Int32Array(CAPACITY_FIRST)
  /** Given back and not used again yet. */
  readonly #free: number[] = []
  readonly #firstCopy = new BlockTable()
  /** Blocks from 1 to this one have been used. */
  #usedCount = 0
  #inactiveCount = 0

  constructor(blockCount: number, events: BlockEvents | null) {
    this.blockCount = blockCount
    this.#events = events
  }

  get freeCount(): number {
    return this.blockCount - this.#usedCount + this.#free.length
  }

  /** Cached and not referenced. */
  get inactiveCount(): number {
    return this.#inactiveCount
  }

  get activeCount(): number {
    return this.#usedCount - this.#free.length - this.#inactiveCount
  }

  /** Distinct hashes that are resident. */
  get cachedHashCount(): number {
    return this.#firstCopy.size
  }

  /** The first copy of a hash, or -1. */
  find(low: number, high: number): number {
    return this.#firstCopy.get(low, high) || NONE
  }

  isInactive(block: number): boolean {
    return this.#isCached[block] !== 0 && this.#refs[block] === 0
  }

  /** One more reference to a cached block. */
  reuse(block: number): void {
    assert(this.#isCached[block] !== 0, 'only a cached block is reused')
    if (this.#refs[block] === 0) this.#unlink(block)
    this.#refs[block]! += 1
  }

  /** A private block, taken from the free ones or by evicting the least recently used; -1 when all are active. */
  allocate(): number {
    const block = this.#free.pop() ?? this.#unused()
    if (block === NONE) {
      const victim = this.#next[END]!
      if (victim === END) return NONE
      this.#evict(victim)
      return this.allocate()
    }
    this.#refs[block] = 1
    return block
  }

  /** A private block has been computed: from now on it can be found by its hash, number `index` of the chain `hashes`. */
  publish(
    block: number,
    hashes: ArrayLike<number>,
    index: number,
    content: BlockContent | null = null,
  ): void {
    assert(
      this.#isCached[block] === 0 && this.#refs[block] === 1,
      'only a private block is published',
    )
    const low = hashes[2 * index]!
    const high = hashes[2 * index + 1]!
    this.#low[block] = low
    this.#high[block] = high
    this.#isCached[block] = index === 0 ? ROOT : CHILD
    if (index > 0) {
      this.#parentLow[block] = hashes[2 * index - 2]!
      this.#parentHigh[block] = hashes[2 * index - 1]!
    }
    const first = this.#firstCopy.get(low, high)
    if (first === 0) {
      this.#firstCopy.set(low, high, block)
      this.#events?.storedChain(hashes, index, content)
      return
    }
    this.#nextCopy[block] = this.#nextCopy[first]!
    this.#nextCopy[first] = block
  }

  /** What is cached, each hash once, parents before children, as events would have told it. */
  held(): readonly SimKvEvent[] {
    const events = new BlockEvents()
    const isDone = new Uint8Array(this.#usedCount + 1)
    for (let block = 1; block <= this.#usedCount; block++) {
      const path: number[] = []
      let at = this.#isCached[block] === 0 ? 0 : block
      while (at !== 0 && isDone[at] === 0) {
        isDone[at] = 1
        const first = this.#firstCopy.get(this.#low[at]!, this.#high[at]!)
        if (first === at) path.push(at)
        at = first === at ? this.#parentOf(at) : first
      }
      for (const found of path.toReversed()) {
        const isRoot = this.#isCached[found] === ROOT
        const parent = isRoot
          ? null
          : ([this.#parentLow[found]!, this.#parentHigh[found]!] as const)
        events.stored(this.#low[found]!, this.#high[found]!, parent)
      }
    }
    return events.take()
  }

  /** The first copy of the block before it; 0: there is none, or it has been evicted. */
  #parentOf(block: number): number {
    if (this.#isCached[block] !== CHILD) return 0
    return this.#firstCopy.get(this.#parentLow[block]!, this.#parentHigh[block]!)
  }

  /** One reference less; the last one frees a private block and makes a cached one inactive. */
  release(block: number): void {
    const refs = this.#refs[block]! - 1
    assert(refs >= 0, 'a block is not released twice')
    this.#refs[block] = refs
    if (refs > 0) return
    if (this.#isCached[block] === 0) this.#free.push(block)
    else this.#linkAtTail(block)
  }

  /** Forgets everything unused; returns the number of blocks freed. */
  evictInactive(): number {
    let count = 0
    for (;;) {
      const victim = this.#next[END]!
      if (victim === END) return count
      this.#evict(victim)
      count += 1
    }
  }

  /** A block that was never used, or -1. */
  #unused(): number {
    if (this.#usedCount === this.blockCount) return NONE
    this.#usedCount += 1
    if (this.#usedCount >= this.#refs.length) this.#grow()
    return this.#usedCount
  }

  #grow(): void {
    const capacity = Math.min(2 * this.#refs.length, this.blockCount + 1)
    const grown = <T extends { set(from: T): void }>(old: T, fresh: T): T => {
      fresh.set(old)
      return fresh
    }
    this.#refs = grown(this.#refs, new Int32Array(capacity))
    this.#low = grown(this.#low, new Uint32Array(capacity))
    this.#high = grown(this.#high, new Uint32Array(capacity))
    this.#isCached = grown(this.#isCached, new Uint8Array(capacity))
    this.#parentLow = grown(this.#parentLow, new Uint32Array(capacity))
    this.#parentHigh = grown(this.#parentHigh, new Uint32Array(capacity))
    this.#nextCopy = grown(this.#nextCopy, new Int32Array(capacity))
    this.#previous = grown(this.#previous, new Int32Array(capacity))
    this.#next = grown(this.#next, new Int32Array(capacity))
  }

  #evict(block: number): void {
    this.#unlink(block)
    this.#isCached[block] = 0
    const low = this.#low[block]!
    const high = this.#high[block]!
    const after = this.#nextCopy[block]!
    let copy = this.#firstCopy.get(low, high)
    if (copy === block) {
      if (after === 0) {
        this.#firstCopy.delete(low, high)
        this.#events?.removed(low, high)
      } else this.#firstCopy.set(low, high, after)
    } else {
      while (this.#nextCopy[copy] !== block) copy = this.#nextCopy[copy]!
      this.#nextCopy[copy] = after
    }
    this.#nextCopy[block] = 0
    this.#free.push(block)
  }

  #linkAtTail(block: number): void {
    const tail = this.#previous[END]!
    this.#next[tail] = block
    this.#previous[block] = tail
    this.#next[block] = END
    this.#previous[END] = block
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
