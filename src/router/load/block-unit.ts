/**
 * How many tokens a KV block of a pool has: what its workers say, else what is configured, else (engines that tell none and keep
 * prefixes all the same) what is assumed.
 */
import type { WorkerCard } from '../../request/index.ts'

const DEFAULT_BLOCK_TOKENS = 16

export class BlockUnit {
  readonly #configured: number | null
  /** Null: no worker has said its own, and nothing is known of blocks. */
  #tokens: number | null
  /** No worker has said a block size yet. */
  #isAssumed = false

  constructor(configured: number | null) {
    this.#configured = configured
    this.#tokens = configured
  }

  /** The unit of costs when the workers do not say theirs. */
  get tokens(): number {
    return this.#tokens ?? DEFAULT_BLOCK_TOKENS
  }

  get isKnown(): boolean {
    return this.#tokens !== null
  }

  joined(card: WorkerCard, isFirst: boolean): void {
    const saidTokens = card.engine.kvCacheBlockSize ?? this.#configured
    const isOpen = this.#tokens === null || (this.#isAssumed && saidTokens !== null)
    if (!isFirst && !isOpen) return
    this.#tokens = saidTokens ?? assumedBlockTokens(card)
    this.#isAssumed = saidTokens === null
  }

  isKnownOf(card: WorkerCard): boolean {
    return (card.engine.kvCacheBlockSize ?? this.#configured ?? assumedBlockTokens(card)) !== null
  }
}

/** Foreign engines that tell no block size keep prefixes all the same, and are assumed to hold what they were sent. */
function assumedBlockTokens({ engine }: WorkerCard): number | null {
  return engine.runtimeData?.['upstream_kind'] === undefined ? null : DEFAULT_BLOCK_TOKENS
}
