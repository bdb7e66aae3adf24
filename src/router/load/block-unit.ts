/**
 * Tokens per KV block of a pool: as its workers report, else as configured, else a default (for engines that do not
 * report it and cache prefixes all the same).
 */
import type { WorkerCard } from '../../request/index.ts'

const DEFAULT_BLOCK_TOKENS = 16

export class BlockUnit {
  readonly #configured: number | null
  /** Null if neither a worker nor the configuration gives a block size. */
  #tokens: number | null
  /** True if the value is a default, not reported by a worker. */
  #isAssumed = false

  constructor(configured: number | null) {
    this.#configured = configured
    this.#tokens = configured
  }

  /** The block size in tokens, for costs; a default if it is not known. */
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

/** Remote engines that report no block size are assumed to cache the prompts that they were sent. */
function assumedBlockTokens({ engine }: WorkerCard): number | null {
  return engine.runtimeData?.['upstream_kind'] === undefined ? null : DEFAULT_BLOCK_TOKENS
}
