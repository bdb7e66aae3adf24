/**
 * What the prefill leg tells the decode leg about the KV cache.
 *
 * `KvOffer` is Baton's own hand-over: the prefill worker keeps the named blocks under a lease until the decode worker
 * has pulled them or the lease expires. An engine with its own transfer (NIXL, bootstrap) puts its parameters into
 * `engineParams`, which Baton passes on without reading them.
 */
import { isRecord } from '../base/index.ts'

export interface KvOffer {
  readonly offerId: string
  readonly host: string
  readonly port: number
  /** Identifies model and KV layout; blocks with another fingerprint are never loaded. */
  readonly fingerprint: string
  readonly blockTokens: number
  /** Number of prompt tokens, from the first one, that the offered blocks cover. */
  readonly tokenCount: number
  /** Keys of the blocks in order: pairs of u32, low half first. The last block may be partial. */
  readonly blockKeys: Uint32Array
  readonly kvBytes: number
  readonly expiresInMs: number
}

/** Checks an offer of a peer: its receiver uses every field. */
export function isKvOffer(value: unknown): boolean {
  if (!isRecord(value)) return false
  const texts = ['offerId', 'host', 'fingerprint'].every((name) => typeof value[name] === 'string')
  const numbers = ['port', 'blockTokens', 'tokenCount', 'kvBytes', 'expiresInMs'].every(
    (name) => typeof value[name] === 'number' && value[name] >= 0,
  )
  const keys = value['blockKeys']
  return texts && numbers && keys instanceof Uint32Array && keys.length % 2 === 0
}

export interface PrefillResult {
  readonly kvOffer?: KvOffer
  readonly engineParams?: unknown
  readonly cachedTokens?: number
  /**
   * On a chunk before the end: decode may start while the prefill continues. With `engineParams` the engine transfers
   * the KV itself (engines that push their KV); without, the prompt's blocks will all be in `kvBlocks` at the end,
   * and the worker offers them now.
   */
  readonly meetsDecode?: boolean
}

/** The address at which decode meets prefill if both run at once (bootstrap). */
export interface BootstrapInfo {
  readonly host: string
  readonly port: number
  /** u64 as decimal text. */
  readonly room: string
}
