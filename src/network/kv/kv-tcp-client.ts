/**
 * Pulls offered KV from prefill workers: one bulk connection per worker, with several concurrent pulls.
 */
import { BatonError } from '../../base/index.ts'
import type { KvOffer } from '../../request/index.ts'
import type { KvClient, KvPullStats, KvPullTarget } from '../../wire/index.ts'
import { KvPeer } from './kv-peer.ts'
import { KvPull } from './kv-pull.ts'
import type { WireTiming } from '../link/wire-socket.ts'
import type { WireTls } from '../link/wire-tls.ts'

export interface KvTcpClientOptions {
  readonly secret?: string
  readonly tls?: WireTls
  readonly software?: string
  readonly timing?: WireTiming
  readonly connectTimeoutMs?: number
  /** A pull without progress for this time fails. */
  readonly stallMs?: number
  /** An idle connection is closed after this time. */
  readonly idleMs?: number
  /** Larger offers are refused before anything is requested. */
  readonly kvBytesMax?: number
}

type Settings = KvTcpClientOptions &
  Required<
    Pick<KvTcpClientOptions, 'software' | 'connectTimeoutMs' | 'stallMs' | 'idleMs' | 'kvBytesMax'>
  >

const DEFAULTS = {
  software: '',
  connectTimeoutMs: 3_000,
  stallMs: 10_000,
  idleMs: 60_000,
  kvBytesMax: 64 * 1024 * 1024 * 1024,
} as const

export class KvTcpClient implements KvClient {
  readonly #options: Settings
  readonly #peers = new Map<string, KvPeer>()
  #pullIdLast = 0
  #isClosed = false

  constructor(options: KvTcpClientOptions = {}) {
    this.#options = { ...DEFAULTS, ...options }
  }

  async pull(
    offer: KvOffer,
    missingIndexes: readonly number[],
    target: KvPullTarget,
    signal?: AbortSignal,
  ): Promise<KvPullStats> {
    const startedAtMs = performance.now()
    const peer = this.#peerOf(offer)
    const { kvBytesMax } = this.#options
    if (offer.kvBytes > kvBytesMax) {
      peer.release('abandoned', offer.offerId)
      const text = `the offered KV of ${offer.kvBytes} bytes exceeds the limit of ${kvBytesMax}`
      throw new BatonError('kv.transfer_failed', text, { data: { kvBytesMax } })
    }
    this.#pullIdLast = (this.#pullIdLast + 1) >>> 0
    const pullId = this.#pullIdLast
    const pull = new KvPull({ pullId, offer, missing: missingIndexes, target })
    if (pull.isComplete) peer.release('acknowledged', offer.offerId)
    else await peer.run(pull, signal)
    return {
      blocks: pull.blocks,
      bytes: pull.bytes,
      elapsedMs: performance.now() - startedAtMs,
      resumed: pull.resumed,
    }
  }

  abandon(offer: KvOffer): void {
    if (!this.#isClosed) this.#peerOf(offer).release('abandoned', offer.offerId)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const reason = new BatonError('transport.disconnected', 'this worker is shutting down')
    for (const peer of this.#peers.values()) peer.close(reason)
    this.#peers.clear()
    await Promise.resolve()
  }

  #peerOf({ host, port }: KvOffer): KvPeer {
    if (this.#isClosed) throw new BatonError('kv.transfer_failed', 'this KV client is closed')
    const address = `${host}:${port}`
    const known = this.#peers.get(address)
    if (known) return known
    const peer = new KvPeer({
      ...this.#options,
      host,
      port,
      onIdle: () => this.#peers.delete(address),
    })
    this.#peers.set(address, peer)
    return peer
  }
}
