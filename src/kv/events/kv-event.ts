/**
 * What a worker tells about the blocks that it holds. Hashes are pairs of u32, low half first, so that the index
 * never meets a BigInt: `hashes[2 * i]` is the low and `hashes[2 * i + 1]` the high half of block i.
 */
export type KvTier = 'device' | 'host' | 'disk'

export type KvEvent =
  | {
      readonly kind: 'stored'
      /** Sequence hash (lo, hi) of the block before the first one; null at the root. */
      readonly parent: readonly [number, number] | null
      /** Sequence hashes of the blocks, in order. */
      readonly hashes: Uint32Array
      /** Local (content) hashes, in the same order; empty when the engine's sequence hashes are Baton's own chain. */
      readonly localHashes: Uint32Array
      readonly tier: KvTier
    }
  | { readonly kind: 'removed'; readonly hashes: Uint32Array; readonly tier: KvTier }
  | { readonly kind: 'cleared' }

/** Events of one engine step, numbered per worker and rank without gaps; a gap means that something was missed. */
export interface KvEventBatch {
  readonly sequence: number
  readonly dpRank: number
  readonly events: readonly KvEvent[]
}
