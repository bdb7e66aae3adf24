/**
 * The KV memory of one simulated engine: a fixed number of blocks with a prefix cache and LRU eviction.
 *
 * A block is free, private (referenced, without a hash), or cached (has a hash). A cached block without references is
 * inactive: it can be reused by hash or evicted. A hash may have several copies if two requests computed the same
 * block at once; lookups return the first one. `stored` is reported for the first copy of a hash only, `removed` for
 * the last one.
 *
 * The table uses all 64 bits of a hash.
 */
import { assert } from '../../base/index.ts'
import type { BlockContent, SimKvEvent } from './block-content.ts'
import { BlockEvents } from './block-events.ts'
import { BlockTable } from './block-table.ts'

const NONE = -1
/** Head and tail of the LRU list; blocks are numbered from 1. */
const END = 0
const CAPACITY_FIRST = 64

// The row of a block is half a cache line, because a visit reads most of it. Its first word is the state: `REF` per
// reference, plus whether the block is cached with a parent (`CHILD`), without one (`ROOT`), or not cached.
const ROW_BITS = 3
const LOW = 1
const HIGH = 2
const PARENT_LOW = 3
const PARENT_HIGH = 4
/** Next copy of the same hash; 0: none. */
const NEXT_COPY = 5
/** LRU list of inactive blocks. */
const PREVIOUS = 6
const NEXT = 7

const ROOT = 1
const CHILD = 2
const CACHED = ROOT | CHILD
const REF = 4

export class BlockPool {
  readonly blockCount: number
  readonly #events: BlockEvents | null
  /** Grows with the number of blocks used so far: thousands of idle engines must fit into one process. */
  #rows = new Uint32Array(CAPACITY_FIRST << ROW_BITS)
  /** Blocks that were released and not reused yet. */
  readonly #free: number[] = []
  readonly #firstCopy = new BlockTable()
  /** Blocks 1 to this one have been used. */
  #usedCount = 0
  #inactiveCount = 0

  constructor(blockCount: number, events: BlockEvents | null) {
    this.blockCount = blockCount
    this.#events = events
  }

  get freeCount(): number {
    return this.blockCount - this.#usedCount + this.#free.length
  }

  /** Number of blocks that are cached and not referenced. */
  get inactiveCount(): number {
    return this.#inactiveCount
  }

  get activeCount(): number {
    return this.#usedCount - this.#free.length - this.#inactiveCount
  }

  /** Number of distinct cached hashes. */
  get cachedHashCount(): number {
    return this.#firstCopy.size
  }

  /** The first copy of a hash, or -1. */
  find(low: number, high: number): number {
    return this.#firstCopy.get(low, high) || NONE
  }

  isInactive(block: number): boolean {
    const state = this.#rows[block << ROW_BITS]!
    return state > 0 && state < REF
  }

  /** Adds a reference to a cached block. */
  reuse(block: number): void {
    const row = block << ROW_BITS
    const state = this.#rows[row]!
    assert((state & CACHED) !== 0, 'only a cached block is reused')
    if (state < REF) this.#unlink(row)
    this.#rows[row] = state + REF
  }

  /** Allocates a private block: a free one, or by evicting the least recently used; -1 if all are active. */
  allocate(): number {
    const block = this.#free.pop() ?? this.#unused()
    if (block === NONE) {
      const victim = this.#rows[NEXT]!
      if (victim === END) return NONE
      this.#evict(victim)
      return this.allocate()
    }
    this.#rows[block << ROW_BITS] = REF
    return block
  }

  /** A private block has been computed: makes it available under its hash, number `index` of the chain `hashes`. */
  publish(
    block: number,
    hashes: ArrayLike<number>,
    index: number,
    content: BlockContent | null = null,
  ): void {
    const rows = this.#rows
    const row = block << ROW_BITS
    assert(rows[row] === REF, 'only a private block is published')
    const low = hashes[2 * index]!
    const high = hashes[2 * index + 1]!
    rows[row + LOW] = low
    rows[row + HIGH] = high
    if (index === 0) rows[row] = REF | ROOT
    else {
      rows[row] = REF | CHILD
      rows[row + PARENT_LOW] = hashes[2 * index - 2]!
      rows[row + PARENT_HIGH] = hashes[2 * index - 1]!
    }
    const first = this.#firstCopy.putFirst(low, high, block)
    if (first === 0) {
      this.#events?.storedChain(hashes, index, content)
      return
    }
    const firstRow = first << ROW_BITS
    rows[row + NEXT_COPY] = rows[firstRow + NEXT_COPY]!
    rows[firstRow + NEXT_COPY] = block
  }

  /** The cached blocks as `stored` events, each hash once, parents before children. */
  held(): readonly SimKvEvent[] {
    const events = new BlockEvents()
    const isDone = new Uint8Array(this.#usedCount + 1)
    const rows = this.#rows
    for (let block = 1; block <= this.#usedCount; block++) {
      const path: number[] = []
      let at = (rows[block << ROW_BITS]! & CACHED) === 0 ? 0 : block
      while (at !== 0 && isDone[at] === 0) {
        isDone[at] = 1
        const row = at << ROW_BITS
        const first = this.#firstCopy.get(rows[row + LOW]!, rows[row + HIGH]!)
        if (first === at) path.push(at)
        at = first === at ? this.#parentOf(at) : first
      }
      for (const found of path.toReversed()) {
        const row = found << ROW_BITS
        const isRoot = (rows[row]! & CACHED) === ROOT
        const parent = isRoot
          ? null
          : ([rows[row + PARENT_LOW]!, rows[row + PARENT_HIGH]!] as const)
        events.stored(rows[row + LOW]!, rows[row + HIGH]!, parent)
      }
    }
    return events.take()
  }

  /** The first copy of the parent block; 0: there is none, or it has been evicted. */
  #parentOf(block: number): number {
    const row = block << ROW_BITS
    if ((this.#rows[row]! & CACHED) !== CHILD) return 0
    return this.#firstCopy.get(this.#rows[row + PARENT_LOW]!, this.#rows[row + PARENT_HIGH]!)
  }

  /** Removes a reference; the last one frees a private block and makes a cached one inactive. */
  release(block: number): void {
    const row = block << ROW_BITS
    const state = this.#rows[row]!
    assert(state >= REF, 'a block is not released twice')
    this.#rows[row] = state - REF
    if (state === REF) this.#free.push(block)
    else if (state < 2 * REF) this.#linkAtTail(block)
  }

  /** Evicts all inactive blocks; returns their number. */
  evictInactive(): number {
    let count = 0
    for (;;) {
      const victim = this.#rows[NEXT]!
      if (victim === END) return count
      this.#evict(victim)
      count += 1
    }
  }

  /** A block that was never used, or -1. */
  #unused(): number {
    if (this.#usedCount === this.blockCount) return NONE
    this.#usedCount += 1
    if (this.#usedCount << ROW_BITS >= this.#rows.length) this.#grow()
    return this.#usedCount
  }

  #grow(): void {
    const capacity = Math.min(2 * (this.#rows.length >> ROW_BITS), this.blockCount + 1)
    const larger = new Uint32Array(capacity << ROW_BITS)
    larger.set(this.#rows)
    this.#rows = larger
  }

  #evict(block: number): void {
    const rows = this.#rows
    const row = block << ROW_BITS
    this.#unlink(row)
    rows[row] = 0
    const low = rows[row + LOW]!
    const high = rows[row + HIGH]!
    const after = rows[row + NEXT_COPY]!
    const first = this.#firstCopy.replace(low, high, block, after)
    if (first === block) {
      if (after === 0) this.#events?.removed(low, high)
    } else {
      let copy = first << ROW_BITS
      while (rows[copy + NEXT_COPY] !== block) copy = rows[copy + NEXT_COPY]! << ROW_BITS
      rows[copy + NEXT_COPY] = after
    }
    rows[row + NEXT_COPY] = 0
    this.#free.push(block)
  }

  #linkAtTail(block: number): void {
    const rows = this.#rows
    const row = block << ROW_BITS
    const tail = rows[PREVIOUS]!
    rows[(tail << ROW_BITS) + NEXT] = block
    rows[row + PREVIOUS] = tail
    rows[row + NEXT] = END
    rows[PREVIOUS] = block
    this.#inactiveCount += 1
  }

  #unlink(row: number): void {
    const rows = this.#rows
    const previous = rows[row + PREVIOUS]!
    const next = rows[row + NEXT]!
    rows[(previous << ROW_BITS) + NEXT] = next
    rows[(next << ROW_BITS) + PREVIOUS] = previous
    this.#inactiveCount -= 1
  }
}
