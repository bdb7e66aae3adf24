/**
 * The KV offers of one prefill worker: which blocks are pinned for other workers, and until when.
 *
 * Owns every pin from `offer` to its single release. A pin cannot outlive its lease, which is renewed only by
 * progress (`touch`), so neither a silent nor a stuck puller holds memory forever. No sockets; the simulator uses the
 * same class with a virtual clock.
 */
import { BatonError, InFlightMap } from '../base/index.ts'
import type { Clock, Timer } from '../base/index.ts'
import type { KvOffer } from '../request/index.ts'
import type {
  KvBlockReader,
  KvHold,
  KvOfferOptions,
  KvReleaseReason,
  KvServerStats,
} from './kv-transport.ts'

export interface KvOfferBookOptions {
  readonly clock: Clock
  /** Creates an unguessable id, because knowing it allows pulling. */
  readonly createOfferId: () => string
  readonly leaseMs: number
  /** How long an offer waits for a puller when its puller or frontend is lost, in milliseconds. */
  readonly graceMs: number
  readonly offersMax: number
}

export interface HeldOffer {
  readonly offerId: string
  readonly pin: KvHold
  readonly source: KvBlockReader
}

interface Entry extends HeldOffer {
  readonly leaseMs: number
  readonly onReleased: ((reason: KvReleaseReason) => void) | undefined
  deadlineMs: number
  lapse: KvReleaseReason
  timer: Timer
}

export class KvOfferBook {
  readonly #options: KvOfferBookOptions
  readonly #entries = new InFlightMap<string, Entry>()
  readonly #released: Record<KvReleaseReason, number> = {
    acknowledged: 0,
    abandoned: 0,
    withdrawn: 0,
    'puller-died': 0,
    'lease-ended': 0,
    closed: 0,
  }
  #heldBytes = 0
  #bytesSent = 0
  #blocksSent = 0

  constructor(options: KvOfferBookOptions) {
    this.#options = options
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  get count(): number {
    return this.#entries.size
  }

  get stats(): KvServerStats {
    return {
      bytesSent: this.#bytesSent,
      blocksSent: this.#blocksSent,
      released: { ...this.#released },
    }
  }

  /** Takes ownership of the pin; if it throws (`capacity.worker_overloaded`), the pin has been released. */
  offer(
    address: { readonly host: string; readonly port: number },
    pin: KvHold,
    source: KvBlockReader,
    options: KvOfferOptions = {},
  ): KvOffer {
    const { clock, offersMax, createOfferId } = this.#options
    if (this.#entries.size >= offersMax) {
      pin.release()
      const text = `${offersMax} KV offers are held already`
      throw new BatonError('capacity.worker_overloaded', text, { data: { offersMax } })
    }
    const offerId = createOfferId()
    const leaseMs = options.leaseMs ?? this.#options.leaseMs
    this.#entries.set(offerId, {
      offerId,
      pin,
      source,
      leaseMs,
      onReleased: options.onReleased,
      deadlineMs: clock.nowMs() + leaseMs,
      lapse: 'lease-ended',
      timer: clock.after(leaseMs, () => this.#onTimer(offerId)),
    })
    this.#heldBytes += pin.kvBytes
    return {
      ...address,
      offerId,
      fingerprint: source.fingerprint,
      blockTokens: source.blockTokens,
      tokenCount: pin.tokenCount,
      blockKeys: pin.blockKeys,
      kvBytes: pin.kvBytes,
      expiresInMs: leaseMs,
    }
  }

  get(offerId: string): HeldOffer | undefined {
    return this.#entries.get(offerId)
  }

  /** The puller has connected or received data: renews the lease. */
  touch(offerId: string, bytesSent = 0, blocksSent = 0): void {
    this.#bytesSent += bytesSent
    this.#blocksSent += blocksSent
    const entry = this.#entries.get(offerId)
    if (!entry) return
    entry.lapse = 'lease-ended'
    entry.deadlineMs = this.#options.clock.nowMs() + entry.leaseMs
  }

  /** The puller's connection broke: it may reconnect within the grace period. */
  pullerLost(offerId: string): void {
    this.#expectSoon(offerId, 'puller-died')
  }

  /** The frontend that was given the offer is gone: a puller may have it already and comes within the grace period. */
  frontendLost(offerId: string): void {
    this.#expectSoon(offerId, 'abandoned')
  }

  #expectSoon(offerId: string, lapse: KvReleaseReason): void {
    const entry = this.#entries.get(offerId)
    if (!entry) return
    const { clock, graceMs } = this.#options
    const deadlineMs = clock.nowMs() + graceMs
    if (deadlineMs >= entry.deadlineMs) return
    entry.deadlineMs = deadlineMs
    entry.lapse = lapse
    entry.timer.cancel()
    entry.timer = clock.after(graceMs, () => this.#onTimer(offerId))
  }

  /** Idempotent; unknown ids are ignored. */
  release(offerId: string, reason: KvReleaseReason): void {
    const entry = this.#entries.get(offerId)
    if (!entry) return
    this.#entries.delete(offerId)
    this.#heldBytes -= entry.pin.kvBytes
    this.#released[reason] += 1
    entry.timer.cancel()
    entry.pin.release(reason !== 'acknowledged')
    entry.onReleased?.(reason)
  }

  releaseAll(reason: KvReleaseReason): void {
    for (const { offerId } of this.#entries.values()) this.release(offerId, reason)
  }

  #onTimer(offerId: string): void {
    const entry = this.#entries.get(offerId)
    if (!entry) return
    const leftMs = entry.deadlineMs - this.#options.clock.nowMs()
    if (leftMs <= 0) this.release(offerId, entry.lapse)
    else entry.timer = this.#options.clock.after(leftMs, () => this.#onTimer(offerId))
  }
}
