/**
 * Serves the KV offers of a prefill worker over TCP on a port of their own, so that bulk data never delays a token.
 */
import { randomBytes } from 'node:crypto'
import type { AddressInfo, Server, Socket } from 'node:net'

import { BatonError } from '../../base/index.ts'
import type { KvOffer } from '../../request/index.ts'
import { KV_KEYED_SUMS, KV_UNCHECKED, KvOfferBook } from '../../wire/index.ts'
import type {
  KvBlockReader,
  KvHold,
  KvOfferOptions,
  KvServer,
  KvServerStats,
} from '../../wire/index.ts'
import { osClock } from '../../os/index.ts'
import { KvChunkSums } from './kv-chunk-sums.ts'
import { KvPullerConnection } from './kv-puller-connection.ts'
import { listenOn } from '../link/listen-on.ts'
import type { WireTiming } from '../link/wire-socket.ts'
import type { GateLimits } from '../link/connection-gate.ts'
import { createWireServer } from '../link/wire-tls.ts'
import type { WireTls } from '../link/wire-tls.ts'

export interface KvTcpServerOptions {
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 0: any free port. */
  readonly port?: number
  /** The host name in offers instead of `host`, when other machines reach this one under another name. */
  readonly advertisedHost?: string
  readonly advertisedPort?: number
  readonly secret?: string
  readonly tls?: WireTls
  readonly software?: string
  readonly leaseMs?: number
  readonly graceMs?: number
  readonly offersMax?: number
  /** The limits of connections, per address and in total. */
  readonly gate?: Partial<GateLimits>
  readonly chunkBytes?: number
  /**
   * Whether chunks have a checksum. Default: yes, even between two ends with the same address, because there may be
   * a tunnel or a sidecar between them, and a damaged block would produce wrong answers for as long as it is cached.
   */
  readonly checksum?: boolean
  readonly timing?: WireTiming
}

const DEFAULTS = {
  leaseMs: 30_000,
  graceMs: 3_000,
  offersMax: 4_096,
  chunkBytes: 512 * 1024,
  checksum: true,
} as const
/** Socket buffer: large enough to keep the kernel busy, small enough to keep for a slow peer. */
const SOCKET_BYTES = 4 * 1024 * 1024
const PULLS_MAX = 1_024

export class KvTcpServer implements KvServer {
  readonly host: string
  readonly port: number
  readonly #server: Server
  readonly #options: KvTcpServerOptions
  readonly #book: KvOfferBook
  readonly #connections = new Set<KvPullerConnection>()
  readonly #sums: KvChunkSums
  #closing: Promise<void> | null = null

  private constructor(server: Server, options: KvTcpServerOptions) {
    const address = server.address() as AddressInfo
    this.host = options.advertisedHost ?? address.address
    this.port = options.advertisedPort ?? address.port
    this.#server = server
    this.#options = options
    const { leaseMs, graceMs, offersMax, chunkBytes } = { ...DEFAULTS, ...options }
    this.#sums = new KvChunkSums(chunkBytes)
    this.#book = new KvOfferBook({
      clock: osClock,
      createOfferId: () => randomBytes(16).toString('hex'),
      leaseMs,
      graceMs,
      offersMax,
    })
  }

  /** Rejects with `host.address_in_use` when the port is taken. */
  static async listen(options: KvTcpServerOptions = {}): Promise<KvTcpServer> {
    let listening: KvTcpServer | undefined
    const server = createWireServer(
      options.tls,
      { noDelay: true, highWaterMark: SOCKET_BYTES, gate: options.gate ?? {} },
      (socket, admit) => {
        if (listening !== undefined) listening.#onConnection(socket, admit)
      },
    )
    await listenOn(server, options.host ?? '127.0.0.1', options.port ?? 0)
    listening = new KvTcpServer(server, options)
    return listening
  }

  get heldBytes(): number {
    return this.#book.heldBytes
  }

  get offerCount(): number {
    return this.#book.count
  }

  get stats(): KvServerStats {
    return this.#book.stats
  }

  offer(pin: KvHold, source: KvBlockReader, options?: KvOfferOptions): KvOffer {
    const address = { host: this.host, port: this.port }
    const offer = this.#book.offer(address, pin, source, {
      ...(options?.leaseMs === undefined ? {} : { leaseMs: options.leaseMs }),
      onReleased: (reason) => {
        // Pullers that wait for the rest of the offer are told that none will come.
        this.grown(offer.offerId)
        options?.onReleased?.(reason)
      },
    })
    if (this.#options.checksum !== false) this.#sums.prepare(pin, source)
    return offer
  }

  grown(offerId: string): void {
    for (const connection of this.#connections) connection.goOn(offerId)
  }

  withdraw(offerId: string): void {
    this.#book.release(offerId, 'withdrawn')
  }

  frontendLost(offerId: string): void {
    this.#book.frontendLost(offerId)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  #onConnection(socket: Socket, admit: () => BatonError | null): void {
    const { checksum, chunkBytes, secret, software, timing } = {
      ...DEFAULTS,
      ...this.#options,
    }
    const connection = new KvPullerConnection(socket, {
      socket: {
        side: 'acceptor',
        self: {
          role: 'kv-server',
          software: software ?? '',
          capabilities: checksum ? [KV_KEYED_SUMS] : [KV_UNCHECKED],
          limits: {},
        },
        secret,
        timing,
        admit,
        areSummed: false,
      },
      book: this.#book,
      chunkBytes,
      sums: checksum ? this.#sums : null,
      pullsMax: PULLS_MAX,
      onClosed: () => this.#connections.delete(connection),
    })
    this.#connections.add(connection)
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#book.releaseAll('closed')
    this.#sums.close()
    const reason = new BatonError('backend.engine_shutdown', 'this worker has stopped')
    for (const connection of this.#connections) connection.close(reason)
    await closed
  }
}
