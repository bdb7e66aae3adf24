/**
 * The engine's side of KV hand-over by block.
 *
 * The engine keeps computed blocks in host memory under the chained prefix hash of their tokens (a bounded LRU store)
 * and looks there before it computes a prompt. So a decode worker needs no mode of its own in the engine: the worker
 * pulls the blocks that are lacking into the store, then calls `generate`, which finds its whole prompt cached.
 *
 * Pinned blocks are not evicted. Every pin is released exactly once.
 */
export interface KvBlockSource {
  /** Identity of model, quantisation and KV layout. Blocks of another fingerprint are refused by `put`. */
  readonly fingerprint: string
  readonly blockTokens: number
  /** What the blocks of a prompt will take before they are there; absent: nothing is offered before it is computed. */
  readonly bytesPerToken?: number

  /**
   * Pins the blocks that cover `tokenIds` without its last token (which decode computes itself), as far as they are
   * held from the first on. The last block may be partial. `salt` keeps tenants apart, as in the block hash.
   */
  pin(tokenIds: Uint32Array, salt?: string): KvPin

  /**
   * The keys that the first `tokenCount` tokens of this prompt have here. With it, an offer of other keys is refused
   * before anything is pulled: nobody can put blocks under the keys of somebody else's prompt.
   */
  keysOf?(tokenIds: Uint32Array, tokenCount: number, salt?: string): Uint32Array

  /** Of the given keys, the indexes that are not held here; nothing is pinned. */
  missing(blockKeys: Uint32Array): number[]

  /**
   * Memory for a block that will be `put`: of evicted blocks, where there is some. What it holds before is of no meaning.
   * A source without it gets fresh memory.
   */
  allocate?(byteLength: number): Uint8Array

  /** Bytes of a pinned or held block; undefined when it is gone. The view must not be changed. */
  get(keyLow: number, keyHigh: number): Uint8Array | undefined

  /**
   * Takes a block from elsewhere. Checks length and layout before anything is changed; throws `kv.block_refused`.
   * Returns false when the store is full of pinned blocks.
   */
  put(keyLow: number, keyHigh: number, tokenCount: number, bytes: Uint8Array): boolean

  readonly heldBytes: number
  readonly pinnedBytes: number
}

export interface KvPin {
  readonly tokenCount: number
  /** (low, high) pairs of u32 in order. */
  readonly blockKeys: Uint32Array
  readonly kvBytes: number
  /** Idempotent. `isStillRead`: somebody may read the bytes even after this, so their memory is not used again. */
  release(isStillRead?: boolean): void
}
