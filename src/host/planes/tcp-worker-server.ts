/**
 * The door of a worker: frontends connect here, send requests and hear of KV and load.
 *
 * Life: `listen` → serving → `drain` (refuses what is new) → `close` (idempotent; what still runs is dropped).
 */
import type { AddressInfo, Server, Socket } from 'node:net'

import { BatonError } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type { WorkerHandler, WorkerUplink } from '../../wire/index.ts'
import { FrontendConnection } from './frontend-connection.ts'
import { listenOn } from './listen-on.ts'
import type { WireTiming } from './wire-socket.ts'
import { createWireServer } from './wire-tls.ts'
import type { WireTls } from './wire-tls.ts'

export interface TcpWorkerServerOptions {
  readonly handler: WorkerHandler
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 0: any free port. */
  readonly port?: number
  /** Frontends check that they have reached the worker that they meant. */
  readonly workerId?: string
  readonly software?: string
  /** Frontends must prove that they know it. */
  readonly secret?: string
  readonly tls?: WireTls
  readonly connectionsMax?: number
  /** Requests of one frontend at once. */
  readonly streamsMax?: number
  readonly unsentBytesMax?: number
  readonly timing?: WireTiming
  /** A frontend's connection has ended; its requests have been dropped already. */
  readonly onPeerGone?: (reason: BatonError) => void
}

const DEFAULTS = {
  connectionsMax: 256,
  streamsMax: 4_096,
  unsentBytesMax: 64 * 1024 * 1024,
} as const

export class TcpWorkerServer implements WorkerUplink {
  readonly host: string
  readonly port: number
  readonly #server: Server
  readonly #options: TcpWorkerServerOptions
  readonly #connections = new Set<FrontendConnection>()
  #isDraining = false
  #closing: Promise<void> | null = null

  private constructor(server: Server, options: TcpWorkerServerOptions) {
    const address = server.address() as AddressInfo
    this.host = address.address
    this.port = address.port
    this.#server = server
    this.#options = options
  }

  /** Rejects with `host.address_in_use` when the port is taken. */
  static async listen(options: TcpWorkerServerOptions): Promise<TcpWorkerServer> {
    let listening: TcpWorkerServer | undefined
    const server = createWireServer(options.tls, { noDelay: true }, (socket) => {
      if (listening !== undefined) listening.#onConnection(socket)
    })
    await listenOn(server, options.host ?? '127.0.0.1', options.port ?? 0)
    listening = new TcpWorkerServer(server, options)
    return listening
  }

  /** Requests that run now, of all frontends. */
  get streamCount(): number {
    let count = 0
    for (const connection of this.#connections) count += connection.streamCount
    return count
  }

  publishKvEvents(batch: KvEventBatch): void {
    for (const connection of this.#connections) connection.sendKvEvents(batch)
  }

  publishLoad(report: LoadReport): void {
    for (const connection of this.#connections) connection.sendLoad(report)
  }

  flush(): void {
    for (const connection of this.#connections) connection.flush()
  }

  drain(): void {
    if (this.#isDraining) return
    this.#isDraining = true
    for (const connection of this.#connections) connection.sendDraining()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  #onConnection(socket: Socket): void {
    const { handler, secret, timing, workerId } = this.#options
    const { connectionsMax, streamsMax, unsentBytesMax } = { ...DEFAULTS, ...this.#options }
    if (this.#connections.size >= connectionsMax) {
      socket.destroy()
      return
    }
    const connection = new FrontendConnection(socket, {
      socket: {
        side: 'acceptor',
        self: {
          role: 'worker',
          software: this.#options.software ?? '',
          capabilities: [],
          limits: { streamsMax },
          ...(workerId === undefined ? {} : { workerId }),
        },
        secret,
        timing,
      },
      handler,
      streamsMax,
      unsentBytesMax,
      isDraining: () => this.#isDraining,
      onClosed: (reason) => {
        this.#connections.delete(connection)
        this.#options.onPeerGone?.(reason)
      },
    })
    this.#connections.add(connection)
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    const reason = new BatonError('backend.engine_shutdown', 'this worker has stopped')
    for (const connection of this.#connections) connection.close(reason)
    await closed
  }
}
