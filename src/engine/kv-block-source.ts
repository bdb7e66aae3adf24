/**
 * The engine's side of the KV hand-over by block.
 *
 * The engine keeps computed blocks in host memory, keyed by the chained prefix hash of their tokens (a bounded LRU
 * store), and looks there before it computes a prompt. So a decode worker needs no special mode of the engine: the
 * worker pulls the missing blocks into the store and then calls `generate`, which finds the whole prompt cached.
 *
 * Pinned blocks are not evicted. Every pin is released exactly once.
 */
export interface KvBlockSource {
  /** Identifies model, quantisation and KV layout. `put` refuses blocks with another fingerprint. */
  readonly fingerprint: string
  readonly blockTokens: number
  /** Size of KV per prompt token, known in advance; absent: nothing is offered before it has been computed. */
  readonly bytesPerToken?: number

  /**
   * Pins the blocks that cover `tokenIds` without its last token (which decode computes itself), as far as they are
   * held without a gap. The last block may be partial. `salt` separates tenants, and `loraName` the KV of an
   * adapter from that of the model, as in the block hash.
   */
  pin(tokenIds: Uint32Array, salt?: string, loraName?: string): KvPin

  /**
   * The keys of the first `tokenCount` tokens of this prompt. If present, an offer with other keys is refused before
   * anything is pulled, so that nobody can store blocks under the keys of another prompt.
   */
  keysOf?(tokenIds: Uint32Array, tokenCount: number, salt?: string, loraName?: string): Uint32Array

  /** The indexes of the given keys that are not held; nothing is pinned. */
  missing(blockKeys: Uint32Array): number[]

  /**
   * Memory for a block that will be `put`, reused from evicted blocks if possible; its content is undefined. A source
   * without this method gets fresh memory.
   */
  allocate?(byteLength: number): Uint8Array

  /** The bytes of a pinned or held block; undefined if it is gone. The view must not be modified. */
  get(keyLow: number, keyHigh: number): Uint8Array | undefined

  /**
   * Stores a block from another worker. Validates length and layout before anything is changed; throws
   * `kv.block_refused`. Returns false if the store is full of pinned blocks.
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
  /** Idempotent. `isStillRead`: the bytes may be read even after this, so their memory is not reused. */
  release(isStillRead?: boolean): void
}
