/**
 * KV offers of a prefill worker, served over TCP on a port of their own, so that bulk never stands before a token.
 */
import { randomBytes } from 'node:crypto'
import type { AddressInfo, Server, Socket } from 'node:net'

import { BatonError } from '../../base/index.ts'
import type { KvOffer } from '../../request/index.ts'
import { KV_UNCHECKED, KvOfferBook } from '../../wire/index.ts'
import type {
  KvBlockReader,
  KvHold,
  KvOfferOptions,
  KvServer,
  KvServerStats,
} from '../../wire/index.ts'
import { osClock } from '../os-clock.ts'
import { machineCapability, sweepArenas } from './kv-arena.ts'
import { KvChunkSums } from './kv-chunk-sums.ts'
import { KvPullerConnection } from './kv-puller-connection.ts'
import { listenOn } from './listen-on.ts'
import type { WireTiming } from './wire-socket.ts'
import { createWireServer } from './wire-tls.ts'
import type { WireTls } from './wire-tls.ts'

export interface KvTcpServerOptions {
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 0: any free port. */
  readonly port?: number
  /** What offers say instead of `host`, when other machines reach this one by another name. */
  readonly advertisedHost?: string
  readonly secret?: string
  readonly tls?: WireTls
  readonly software?: string
  readonly leaseMs?: number
  readonly graceMs?: number
  readonly offersMax?: number
  readonly connectionsMax?: number
  readonly chunkBytes?: number
  /**
   * Whether chunks have a checksum. Default: between machines only.
   * Within one machine the bytes go from memory to memory through the kernel and nothing on the way can damage them that
   * could not damage the checksum too; there length and order are checked, and in shared memory its nonce. TLS has
   * checks of its own.
   */
  readonly checksum?: boolean | 'between-machines'
  /** A memory file system (`/dev/shm`): pullers of the same machine get their bytes there. */
  readonly shmDir?: string
  readonly timing?: WireTiming
}

const DEFAULTS = {
  leaseMs: 30_000,
  graceMs: 3_000,
  offersMax: 4_096,
  connectionsMax: 256,
  chunkBytes: 512 * 1024,
  checksum: 'between-machines',
} as const
/** What waits in one socket: enough to keep the kernel busy, little enough to hold for a slow peer. */
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
  /** A puller has come that is told checksums: the next offers' are made ahead. */
  #isChecking = false
  #closing: Promise<void> | null = null

  private constructor(server: Server, options: KvTcpServerOptions) {
    const address = server.address() as AddressInfo
    this.host = options.advertisedHost ?? address.address
    this.port = address.port
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
    if (machineCapability(options.shmDir) !== null) sweepArenas(options.shmDir ?? '')
    let listening: KvTcpServer | undefined
    const server = createWireServer(
      options.tls,
      { noDelay: true, highWaterMark: SOCKET_BYTES },
      (socket) => {
        if (listening !== undefined) listening.#onConnection(socket)
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
    const offer = this.#book.offer({ host: this.host, port: this.port }, pin, source, options)
    if (this.#isChecking) this.#sums.prepare(pin, source)
    return offer
  }

  withdraw(offerId: string): void {
    this.#book.release(offerId, 'withdrawn')
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  #onConnection(socket: Socket): void {
    const { connectionsMax, checksum, chunkBytes, secret, shmDir, software, timing, tls } = {
      ...DEFAULTS,
      ...this.#options,
    }
    const isChecked =
      checksum === 'between-machines' ? tls === undefined && !isOfThisMachine(socket) : checksum
    if (this.#connections.size >= connectionsMax) {
      socket.destroy()
      return
    }
    if (isChecked) this.#isChecking = true
    const connection = new KvPullerConnection(socket, {
      socket: {
        side: 'acceptor',
        self: {
          role: 'kv-server',
          software: software ?? '',
          capabilities: isChecked ? [] : [KV_UNCHECKED],
          limits: {},
        },
        secret,
        timing,
      },
      book: this.#book,
      chunkBytes,
      sums: isChecked ? this.#sums : null,
      pullsMax: PULLS_MAX,
      shmDir,
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

/** A connection whose two ends have one address never leaves the kernel. */
function isOfThisMachine({ localAddress, remoteAddress }: Socket): boolean {
  return localAddress !== undefined && localAddress === remoteAddress
}
