/**
 * What the prefill leg tells the decode leg about the KV cache.
 *
 * `KvOffer` is Baton's own hand-over: the prefill worker holds the named blocks under a lease until the decode
 * worker has pulled them (or the lease ends). An engine with a transfer of its own (NIXL, a bootstrap room) puts
 * its parameters into `engineParams`, which Baton carries and does not read.
 */
export interface KvOffer {
  readonly offerId: string
  readonly host: string
  readonly port: number
  /** Model and layout; a block of another fingerprint is never loaded. */
  readonly fingerprint: string
  readonly blockTokens: number
  /** Tokens of the prompt that the offered blocks cover, from the first on. */
  readonly tokenCount: number
  /** Keys of the blocks in order: pairs of u32, low half first. The last block may be partial. */
  readonly blockKeys: Uint32Array
  readonly kvBytes: number
  readonly expiresInMs: number
}

export interface PrefillResult {
  readonly kvOffer?: KvOffer
  readonly engineParams?: unknown
  readonly cachedTokens?: number
  /**
   * On a chunk before the end: decode may begin now, prefill goes on and both meet. With `engineParams` the engine has a transfer of its own
   * (engines that push their KV); without, the prompt's blocks will all be in `kvBlocks` at the end, and the worker offers them now.
   */
  readonly meetsDecode?: boolean
}

/** Where decode meets prefill when both run at once (bootstrap path). */
export interface BootstrapInfo {
  readonly host: string
  readonly port: number
  /** u64 as decimal text. */
  readonly room: string
}
