/**
 * A worker's server: frontends connect here, send requests and receive KV events and load reports.
 *
 * Life: `listen` → serving → `drain` (refuses new requests) → `close` (idempotent; running requests are dropped).
 */
import type { AddressInfo, Server, Socket } from 'node:net'

import { BatonError } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type { WorkerAnswers, WorkerHandler, WorkerUplink } from '../../wire/index.ts'
import { FrontendConnection } from './frontend-connection.ts'
import { listenOn } from '../link/listen-on.ts'
import { SharedTurns } from '../link/shared-turns.ts'
import type { WireTiming } from '../link/wire-socket.ts'
import type { GateLimits } from '../link/connection-gate.ts'
import { createWireServer } from '../link/wire-tls.ts'
import type { WireTls } from '../link/wire-tls.ts'

export interface TcpWorkerServerOptions {
  readonly handler: WorkerHandler
  readonly answers?: WorkerAnswers
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 0: any free port. */
  readonly port?: number
  /** Frontends check that they have reached this worker. */
  readonly workerId?: string
  readonly software?: string
  /** Frontends must prove that they know it. */
  readonly secret?: string
  readonly tls?: WireTls
  /** The limits of connections, per address and in total. */
  readonly gate?: Partial<GateLimits>
  /** Most concurrent requests of one frontend. */
  readonly streamsMax?: number
  readonly unsentBytesMax?: number
  readonly timing?: WireTiming
  /** The clock that frontends compare with theirs; default: that of this machine. */
  readonly epochMs?: () => number
  /** A frontend's connection has ended and its requests were dropped. Not `wasReady`: it never authenticated. */
  readonly onPeerGone?: (reason: BatonError, wasReady: boolean) => void
}

const DEFAULTS = {
  streamsMax: 4_096,
  unsentBytesMax: 64 * 1024 * 1024,
} as const

export class TcpWorkerServer implements WorkerUplink {
  readonly host: string
  readonly port: number
  readonly #server: Server
  readonly #options: TcpWorkerServerOptions
  readonly #turns = new SharedTurns()
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
    const server = createWireServer(
      options.tls,
      { noDelay: true, gate: options.gate ?? {} },
      (socket, admit) => {
        if (listening !== undefined) listening.#onConnection(socket, admit)
      },
      (fault) => options.onPeerGone?.(fault, false),
    )
    await listenOn(server, options.host ?? '127.0.0.1', options.port ?? 0)
    listening = new TcpWorkerServer(server, options)
    return listening
  }

  /** Frontends and unauthenticated connections. */
  get connectionCount(): number {
    return this.#connections.size
  }

  /** Running requests of all frontends. */
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

  membershipChanged(): void {
    for (const connection of this.#connections) connection.cardChanged()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  #onConnection(socket: Socket, admit: () => BatonError | null): void {
    const { handler, secret, timing, workerId, epochMs = Date.now } = this.#options
    const { streamsMax, unsentBytesMax } = { ...DEFAULTS, ...this.#options }
    const connection = new FrontendConnection(socket, {
      socket: {
        side: 'acceptor',
        self: {
          role: 'worker',
          software: this.#options.software ?? '',
          capabilities: ['peers'],
          limits: { streamsMax },
          epochMs: epochMs(),
          ...(workerId === undefined ? {} : { workerId }),
        },
        secret,
        timing,
        admit,
      },
      handler,
      answers: this.#options.answers,
      onPeer: (from, bytes) => this.#handOn(from, bytes),
      streamsMax,
      unsentBytesMax,
      turns: this.#turns,
      isDraining: () => this.#isDraining,
      onClosed: (reason, wasReady) => {
        this.#connections.delete(connection)
        this.#options.onPeerGone?.(reason, wasReady)
      },
    })
    this.#connections.add(connection)
  }

  /** A message of one frontend is relayed to all others that are connected here. */
  #handOn(from: FrontendConnection, bytes: Uint8Array): void {
    for (const other of this.#connections) if (other !== from) other.sendPeer(bytes)
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    const reason = new BatonError('backend.engine_shutdown', 'this worker has stopped')
    for (const connection of this.#connections) connection.close(reason)
    await closed
  }
}
