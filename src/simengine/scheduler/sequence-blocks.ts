/** The blocks of sequences: reusing a cached prefix, growing, publishing computed blocks, releasing. */
import type { BlockContent } from '../blocks/block-content.ts'
import type { BlockPool } from '../blocks/block-pool.ts'
import type { SimSequence } from './sim-sequence.ts'
import type { TierBlock } from '../blocks/tier-store.ts'

/**
 * Computes the hash of the full block `blockIndex` of a sequence beyond the prompt's own hashes; the parent's hash is
 * in `sequence.hashes`. Pushes (low, high) there.
 */
export type BlockHasher<Owner> = (sequence: SimSequence<Owner>, blockIndex: number) => void

/** Reads the content of block `blockIndex`, all of whose tokens are known. */
export type BlockReader<Owner> = (sequence: SimSequence<Owner>, blockIndex: number) => BlockContent

export class SequenceBlocks<Owner> {
  readonly #pool: BlockPool
  readonly #blockTokens: number
  readonly #caching: boolean
  readonly #hasher: BlockHasher<Owner> | null
  readonly #reader: BlockReader<Owner> | null

  constructor(
    pool: BlockPool,
    blockTokens: number,
    caching: boolean,
    hasher: BlockHasher<Owner> | null,
    reader: BlockReader<Owner> | null = null,
  ) {
    this.#pool = pool
    this.#blockTokens = blockTokens
    this.#caching = caching
    this.#hasher = hasher
    this.#reader = reader
  }

  /** Number of leading cached blocks; at least one token of the sequence is left to compute. */
  cachedPrefix(sequence: SimSequence<Owner>): number {
    if (!this.#caching) return 0
    const { words, length } = sequence.hashes
    const most = Math.min(this.reusable(sequence), length >> 1)
    let count = 0
    while (count < most && this.#pool.find(words[2 * count]!, words[2 * count + 1]!) >= 0)
      count += 1
    return count
  }

  /** Number of blocks that can be reused if they are cached. */
  reusable(sequence: SimSequence<Owner>): number {
    return Math.floor((sequence.length - 1) / this.#blockTokens)
  }

  /** Number of blocks that can be allocated besides the reused prefix of `hits` blocks. */
  availableBeside(sequence: SimSequence<Owner>, hits: number): number {
    const { words } = sequence.hashes
    let available = this.#pool.freeCount + this.#pool.inactiveCount
    for (let i = 0; i < hits; i++) {
      const block = this.#pool.find(words[2 * i]!, words[2 * i + 1]!)
      if (this.#pool.isInactive(block)) available -= 1
    }
    return available
  }

  reusePrefix(sequence: SimSequence<Owner>, hits: number): void {
    const { blocks } = sequence
    const { words } = sequence.hashes
    for (let i = 0; i < hits; i++) {
      const block = this.#pool.find(words[2 * i]!, words[2 * i + 1]!)
      this.#pool.reuse(block)
      blocks.push(block)
    }
    sequence.publishedBlocks = hits
  }

  /** Allocates until `tokens` fit; if it returns false, the blocks obtained so far are kept. */
  growTo(sequence: SimSequence<Owner>, tokens: number): boolean {
    const needed = Math.ceil(tokens / this.#blockTokens)
    while (sequence.blocks.length < needed) {
      const block = this.#pool.allocate()
      if (block < 0) return false
      sequence.blocks.push(block)
    }
    return true
  }

  /** Number of tokens that fit into its blocks. */
  capacityOf(sequence: SimSequence<Owner>): number {
    return sequence.blocks.length * this.#blockTokens
  }

  /** Publishes full blocks whose tokens are all computed; `onPublished` is called for each. */
  publishComputed(sequence: SimSequence<Owner>, onPublished?: (block: TierBlock) => void): void {
    if (!this.#caching) return
    const { hashes, blocks } = sequence
    const full = Math.floor(sequence.computedTokens / this.#blockTokens)
    for (let i = sequence.publishedBlocks; i < full; i++) {
      if (2 * i >= hashes.length) this.#hasher?.(sequence, i)
      if (2 * i >= hashes.length) return
      const content = this.#reader === null ? null : this.#reader(sequence, i)
      this.#pool.publish(blocks[i]!, hashes.words, i, content)
      if (onPublished !== undefined) onPublished(tierBlock(hashes.words, i, content))
      sequence.publishedBlocks = i + 1
    }
  }

  /** Last block first, so that leaves are evicted before their parents. */
  releaseAll(sequence: SimSequence<Owner>): void {
    const { blocks } = sequence
    for (let i = blocks.length - 1; i >= 0; i--) this.#pool.release(blocks[i]!)
    blocks.length = 0
    sequence.publishedBlocks = 0
  }
}

function tierBlock(hashes: Uint32Array, i: number, content: BlockContent | null): TierBlock {
  return {
    low: hashes[2 * i]!,
    high: hashes[2 * i + 1]!,
    parent: i === 0 ? null : [hashes[2 * i - 2]!, hashes[2 * i - 1]!],
    ...(content === null ? {} : { content }),
  }
}
