/**
 * Events by which a worker reports which KV blocks it holds. Hashes are pairs of u32, low half first, so that the
 * index needs no BigInt: `hashes[2 * i]` is the low and `hashes[2 * i + 1]` the high half of block i.
 */
export type KvTier = 'device' | 'host' | 'disk'

export type KvEvent =
  | {
      readonly kind: 'stored'
      /** Sequence hash (low, high) of the block before the first one; null at the start of a prompt. */
      readonly parent: readonly [number, number] | null
      /** Sequence hashes of the blocks, in order. */
      readonly hashes: Uint32Array
      /** Local (content) hashes in the same order; empty if the engine's sequence hashes are computed like Baton's. */
      readonly localHashes: Uint32Array
      readonly tier: KvTier
    }
  | { readonly kind: 'removed'; readonly hashes: Uint32Array; readonly tier: KvTier }
  | { readonly kind: 'cleared' }

/** The events of one engine step, numbered per worker and rank without gaps; a gap means that a batch was lost. */
export interface KvEventBatch {
  readonly sequence: number
  readonly dpRank: number
  readonly events: readonly KvEvent[]
}
