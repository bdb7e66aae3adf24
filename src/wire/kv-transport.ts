/**
 * How a KV cache moves from the worker that computed it to the worker that goes on.
 *
 *   prefill: offer(pin) ── KvOffer in the reply ──▶ decode: pull(offer, missing) ── ack ──▶ prefill: pin released
 *
 * The server owns the pin from `offer` on and releases it exactly once: acknowledged, abandoned, withdrawn, the
 * puller died, the lease ended, or the server closed. One conformance kit holds for every implementation.
 */
import type { KvOffer } from '../request/index.ts'

/** A pinned run of blocks (the engine's `KvPin` is one). */
export interface KvHold {
  readonly tokenCount: number
  readonly blockKeys: Uint32Array
  readonly kvBytes: number
  /** False as long as some of the blocks are still being computed: a pull waits for them (`KvServer.grown`). */
  readonly isWhole?: boolean
  /** `isStillRead`: the puller has not said that it has all, so bytes may still lie in a socket. */
  release(isStillRead?: boolean): void
}

/** Where the bytes of pinned blocks are read (the engine's `KvBlockSource` is one). */
export interface KvBlockReader {
  readonly fingerprint: string
  readonly blockTokens: number
  get(keyLow: number, keyHigh: number): Uint8Array | undefined
}

export type KvReleaseReason =
  | 'acknowledged'
  | 'abandoned'
  | 'withdrawn'
  | 'puller-died'
  | 'lease-ended'
  | 'closed'

export interface KvOfferOptions {
  /** The hold ends by itself after this time without an active pull. */
  readonly leaseMs?: number
  /** Called once, after the pin has been released. */
  readonly onReleased?: (reason: KvReleaseReason) => void
}

/** The prefill side. */
export interface KvServer {
  readonly host: string
  readonly port: number
  offer(pin: KvHold, source: KvBlockReader, options?: KvOfferOptions): KvOffer
  /**
   * Blocks of an offer that was not whole have come: pulls that wait for them go on. Unknown ids are ignored. A server without it
   * is offered whole holds only.
   */
  grown?(offerId: string): void
  /** Takes an offer back, for instance because its request was cancelled. Unknown ids are ignored. */
  withdraw(offerId: string): void
  /** Bytes that are held for others under a lease. */
  readonly heldBytes: number
  readonly offerCount: number
  readonly stats: KvServerStats
  /** Idempotent; releases every pin. */
  close(): Promise<void>
}

export interface KvServerStats {
  readonly bytesSent: number
  readonly blocksSent: number
  readonly released: Readonly<Record<KvReleaseReason, number>>
}

export interface KvPullStats {
  readonly blocks: number
  readonly bytes: number
  readonly elapsedMs: number
  /** Connections that broke under the pull and were made again. */
  readonly resumed: number
}

/** Where pulled blocks go. */
export interface KvPullTarget {
  /** Gets a whole, checked block; the bytes are its own to keep. False: no memory for it. */
  put(index: number, bytes: Uint8Array): boolean
  /**
   * Memory for a block that is then `put`; absent: fresh memory. A block that does not come whole is never put, and its
   * memory must not be given again: the socket may have it still.
   */
  allocate?(byteLength: number): Uint8Array
}

/** The decode side. */
export interface KvClient {
  /**
   * Fetches the blocks with the given indexes (into `offer.blockKeys`), in any order, and acknowledges the offer.
   *
   * When `put` returns false or throws, the pull ends and the offer is abandoned. Rejects with `kv.offer_gone`, `kv.block_refused`,
   * `kv.transfer_failed` or `request.cancelled`. With no index missing it only acknowledges.
   */
  pull(
    offer: KvOffer,
    missingIndexes: readonly number[],
    target: KvPullTarget,
    signal?: AbortSignal,
  ): Promise<KvPullStats>
  /** Says that the offer will not be used, so that the prefill side need not wait for the lease. Best effort. */
  abandon(offer: KvOffer): void
  /** Idempotent; pulls in flight reject. */
  close(): Promise<void>
}
