/**
 * How a KV cache is transferred from the worker that computed it to the worker that continues.
 *
 *   prefill: offer(pin) ── KvOffer in the reply ──▶ decode: pull(offer, missing) ── ack ──▶ prefill: pin released
 *
 * The server owns the pin from `offer` on and releases it exactly once: acknowledged, abandoned, withdrawn, puller
 * lost, lease expired, or server closed. All implementations pass the same conformance kit.
 */
import type { KvOffer } from '../request/index.ts'

/** A pinned sequence of blocks (for example the engine's `KvPin`). */
export interface KvHold {
  readonly tokenCount: number
  readonly blockKeys: Uint32Array
  readonly kvBytes: number
  /** False while some of the blocks are still being computed: a pull waits for them (`KvServer.grown`). */
  readonly isWhole?: boolean
  /** `isStillRead`: the puller has not acknowledged, so a socket may still read the bytes. */
  release(isStillRead?: boolean): void
}

/** Reads the bytes of pinned blocks (for example the engine's `KvBlockSource`). */
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
  /** The hold ends after this time without an active pull. */
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
   * More blocks of an incomplete offer are available: waiting pulls continue. Unknown ids are ignored. A server
   * without this method only accepts complete holds.
   */
  grown?(offerId: string): void
  /** Withdraws an offer, for example because its request was cancelled. Unknown ids are ignored. */
  withdraw(offerId: string): void
  /** The frontend that was given the offer is gone: without a pull soon, the offer ends. Unknown ids are ignored. */
  frontendLost?(offerId: string): void
  /** Bytes held for other workers under a lease. */
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
  /** Connections that broke during a pull and were re-established. */
  readonly resumed: number
}

/** Receives the pulled blocks. */
export interface KvPullTarget {
  /** Receives a complete, verified block and may keep the bytes. False: no memory for it. */
  put(index: number, bytes: Uint8Array): boolean
  /**
   * Memory for a block that will be passed to `put`; absent: fresh memory. An incomplete block is never put, and its
   * memory must not be reused, because the socket may still write to it.
   */
  allocate?(byteLength: number): Uint8Array
}

/** The decode side. */
export interface KvClient {
  /**
   * Fetches the blocks with the given indexes (into `offer.blockKeys`), in any order, and acknowledges the offer.
   *
   * If `put` returns false or throws, the pull ends and the offer is abandoned. Rejects with `kv.offer_gone`,
   * `kv.block_refused`, `kv.transfer_failed` or `request.cancelled`. Without missing indexes it only acknowledges.
   */
  pull(
    offer: KvOffer,
    missingIndexes: readonly number[],
    target: KvPullTarget,
    signal?: AbortSignal,
  ): Promise<KvPullStats>
  /** Tells the prefill side that the offer will not be used, so that it need not wait for the lease. Best effort. */
  abandon(offer: KvOffer): void
  /** Idempotent; pulls in flight reject. */
  close(): Promise<void>
}
