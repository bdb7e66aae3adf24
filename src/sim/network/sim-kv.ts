/**
 * KV transfers between simulated workers: the real book of offers, and pulls that take time and can break.
 */
import { BatonError, sleep } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type { KvOffer } from '../../request/index.ts'
import { KvOfferBook } from '../../wire/index.ts'
import type {
  KvBlockReader,
  KvClient,
  KvHold,
  KvOfferOptions,
  KvPullStats,
  KvPullTarget,
  KvServer,
  KvServerStats,
} from '../../wire/index.ts'
import type { NetworkDice } from './network-faults.ts'

const LIMITS = { leaseMs: 30_000, graceMs: 3_000, offersMax: 65_536 } as const

/** All offers of all workers, found by the address in the offer. */
export class SimKvExchange {
  readonly #dice: NetworkDice
  readonly #servers = new Map<string, SimKvServer>()
  #offers = 0

  constructor(dice: NetworkDice) {
    this.#dice = dice
  }

  /** The server of a prefill worker. */
  createServer(host: string, clock: Clock & { readonly isDead: boolean }): SimKvServer {
    const server = new SimKvServer(host, clock, () => `offer-${++this.#offers}`)
    this.#servers.set(host, server)
    return server
  }

  /** The client of a decode worker. */
  createClient(clock: Clock): KvClient {
    return {
      pull: (offer, missing, target, signal) => this.#pull(clock, offer, missing, target, signal),
      abandon: (offer) => this.#later(clock, () => this.#release(offer, 'abandoned')),
      close: () => Promise.resolve(),
    }
  }

  async #pull(
    clock: Clock,
    offer: KvOffer,
    missing: readonly number[],
    target: KvPullTarget,
    signal: AbortSignal | undefined,
  ): Promise<KvPullStats> {
    const startMs = clock.nowMs()
    await this.#travel(clock, signal)
    const server = this.#servers.get(offer.host)
    if (server === undefined || !server.isAlive)
      throw new BatonError('kv.transfer_failed', `no worker answers at ${offer.host}`)
    const held = server.book.get(offer.offerId)
    if (held === undefined)
      throw new BatonError('kv.offer_gone', 'the offered KV is no longer held')
    server.book.touch(offer.offerId)
    const doesBreak = this.#dice.happens(this.#dice.faults.kvBreak)
    let bytes = 0
    for (const [at, index] of missing.entries()) {
      if (doesBreak && 2 * at >= missing.length) break
      const block = held.source.get(
        offer.blockKeys[2 * index] as number,
        offer.blockKeys[2 * index + 1] as number,
      )
      if (block === undefined)
        throw new BatonError('kv.transfer_failed', 'a pinned block is missing')
      bytes += block.length
      if (!target.put(index, block.slice()))
        throw new BatonError('kv.block_refused', 'there is no memory for the block')
    }
    if (doesBreak) {
      server.book.pullerLost(offer.offerId)
      throw new BatonError('kv.transfer_failed', 'the connection was lost')
    }
    server.book.touch(offer.offerId, bytes, missing.length)
    await this.#travel(clock, signal)
    if (!this.#dice.happens(this.#dice.faults.kvBreak))
      this.#later(clock, () => this.#release(offer, 'acknowledged'))
    const elapsedMs = clock.nowMs() - startMs
    return { blocks: missing.length, bytes, elapsedMs, resumed: 0 }
  }

  #release(offer: KvOffer, reason: 'acknowledged' | 'abandoned'): void {
    this.#servers.get(offer.host)?.book.release(offer.offerId, reason)
  }

  #later(clock: Clock, act: () => void): void {
    const delayMs = this.#dice.delayMs()
    if (delayMs === 0) act()
    else clock.after(delayMs, act)
  }

  async #travel(clock: Clock, signal: AbortSignal | undefined): Promise<void> {
    const delayMs = this.#dice.delayMs()
    if (delayMs > 0) await sleep(clock, delayMs)
    if (signal?.aborted === true)
      throw new BatonError('request.cancelled', 'the pull was cancelled')
  }
}

export class SimKvServer implements KvServer {
  readonly host: string
  readonly port = 1
  readonly book: KvOfferBook
  readonly #clock: Clock & { readonly isDead: boolean }

  constructor(
    host: string,
    clock: Clock & { readonly isDead: boolean },
    createOfferId: () => string,
  ) {
    this.host = host
    this.#clock = clock
    this.book = new KvOfferBook({ clock, createOfferId, ...LIMITS })
  }

  get isAlive(): boolean {
    return !this.#clock.isDead
  }

  get heldBytes(): number {
    return this.book.heldBytes
  }

  get offerCount(): number {
    return this.book.count
  }

  get stats(): KvServerStats {
    return this.book.stats
  }

  offer(pin: KvHold, source: KvBlockReader, options?: KvOfferOptions): KvOffer {
    return this.book.offer(this, pin, source, options)
  }

  withdraw(offerId: string): void {
    this.book.release(offerId, 'withdrawn')
  }

  close(): Promise<void> {
    this.book.releaseAll('closed')
    return Promise.resolve()
  }
}
