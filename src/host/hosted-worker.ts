/**
 * A worker with everything around it that a process gives: a request plane, a KV transport, a place in discovery.
 *
 * The same composition stands behind `baton worker` (TCP) and behind `--in-process` (plain calls). The address is
 * opened after the engine has started, so that nobody can reach a worker that cannot serve.
 */
import { randomBytes } from 'node:crypto'
import { workerIdOf } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import type { Engine } from '../engine/index.ts'
import type { DisaggregationMode, WorkerCard } from '../request/index.ts'
import { Worker } from '../worker/index.ts'
import type {
  ShutdownConfig,
  ShutdownReport,
  WorkerAddress,
  WorkerLimits,
  WorkerObserver,
} from '../worker/index.ts'
import type { Discovery } from './discovery/discovery.ts'
import { osClock } from './os-clock.ts'
import { openKvTcp } from './open-kv.ts'
import type { OpenKv } from './open-kv.ts'
import type { LocalRequestPlane } from './planes/local-request-plane.ts'
import type { HttpServer } from './http-server.ts'
import { TcpWorkerServer } from './planes/tcp-worker-server.ts'
import type { WireTls } from './planes/wire-tls.ts'
import { listenWorkerAdmin } from './worker-admin.ts'
import { WorkerMetrics } from './worker-metrics.ts'

/** How requests reach the worker. */
export type WorkerPlane =
  | {
      readonly kind: 'tcp'
      readonly host: string
      /** 0: any free port. */
      readonly port: number
      readonly secret?: string
      readonly tls?: WireTls
    }
  | { readonly kind: 'local'; readonly plane: LocalRequestPlane }

export interface HostedWorkerOptions {
  readonly engine: Engine
  readonly engineName: string
  readonly mode: DisaggregationMode
  readonly plane: WorkerPlane
  readonly discovery: Discovery
  readonly version: string
  /** Absent: a random one. */
  readonly workerId?: WorkerId
  /** Absent: over TCP, on the address of the plane. Called when the engine has started and keeps blocks. */
  readonly openKv?: (mode: DisaggregationMode) => Promise<OpenKv>
  readonly limits?: Partial<WorkerLimits>
  readonly shutdown?: Partial<ShutdownConfig>
  readonly observe?: WorkerObserver
  /** A fault of ours, to be logged. */
  readonly onFault?: (error: unknown) => void
  readonly taints?: readonly string[]
  readonly topology?: Readonly<Record<string, string>>
  /** Added to what the engine says of itself in the worker's card. */
  readonly runtimeData?: Readonly<Record<string, unknown>>
  /** Health, metrics and commands over HTTP; absent: no such port. */
  readonly admin?: { readonly host: string; readonly port: number; readonly token?: string }
}

export class HostedWorker {
  readonly worker: Worker
  readonly metrics: WorkerMetrics
  readonly #options: HostedWorkerOptions
  #admin: HttpServer | null = null
  #server: TcpWorkerServer | null = null
  #kv: OpenKv | null = null
  #closing: Promise<ShutdownReport> | null = null

  constructor(options: HostedWorkerOptions) {
    const { engine, engineName, mode, version, limits, shutdown, taints, topology } = options
    const workerId = options.workerId ?? randomWorkerId()
    this.#options = options
    this.metrics = new WorkerMetrics(
      () => this.worker.health(),
      { worker_id: workerId, mode },
      () => engine.metrics?.() ?? [],
    )
    this.worker = new Worker({
      engine,
      engineName,
      mode,
      version,
      workerId,
      observe: (event) => {
        this.metrics.observe(event)
        options.observe?.(event)
      },
      clock: osClock,
      pid: process.pid,
      ...(limits === undefined ? {} : { limits }),
      ...(shutdown === undefined ? {} : { shutdown }),
      ...(taints === undefined ? {} : { taints }),
      ...(topology === undefined ? {} : { topology }),
      ...(options.runtimeData === undefined ? {} : { runtimeData: options.runtimeData }),
    })
  }

  /** Where the admin port is, once `start` was called. */
  get adminPort(): number | undefined {
    return this.#admin?.port
  }

  get workerId(): WorkerId {
    return this.worker.workerId
  }

  /** Rejects with the reason, having given everything back. */
  async start(): Promise<WorkerCard> {
    try {
      await this.#openAdmin()
      return await this.worker.start({
        open: () => this.#open(),
        register: (card) => this.#options.discovery.register(card),
      })
    } catch (error) {
      await this.#closeEnds()
      throw error
    }
  }

  /** Goes down in order; idempotent. */
  stop(overrides: Partial<ShutdownConfig> = {}): Promise<ShutdownReport> {
    this.#closing ??= this.#stop(overrides)
    return this.#closing
  }

  async #stop(overrides: Partial<ShutdownConfig>): Promise<ShutdownReport> {
    const report = await this.worker.stop(overrides)
    await this.#closeEnds()
    return report
  }

  async #open(): Promise<WorkerAddress> {
    const { engine, mode, plane, version } = this.#options
    if (engine.kvBlocks !== undefined && mode !== 'agg') this.#kv = await this.#openKv()
    const kv = this.#kv?.ends ?? {}
    if (plane.kind === 'local') {
      const uplink = plane.plane.addWorker(this.workerId, this.worker)
      return { host: 'in-process', port: 0, uplink, kv }
    }
    const { host, port, secret, tls } = plane
    const server = await TcpWorkerServer.listen({
      handler: this.worker,
      host,
      port,
      workerId: this.workerId,
      software: `baton ${version}`,
      ...(secret === undefined ? {} : { secret }),
      ...(tls === undefined ? {} : { tls }),
    })
    this.#server = server
    return { host, port: server.port, uplink: server, kv }
  }

  /** Before the engine starts: whoever watches the process wants to know that it lives. */
  async #openAdmin(): Promise<void> {
    const { admin } = this.#options
    if (admin === undefined) return
    this.#admin = await listenWorkerAdmin({
      ...admin,
      worker: this.worker,
      metrics: () => this.metrics.text(),
      onFault: (error) => this.#options.onFault?.(error),
    })
  }

  #openKv(): Promise<OpenKv> {
    const { mode, plane, openKv } = this.#options
    if (openKv !== undefined) return openKv(mode)
    if (plane.kind === 'local') return openKvTcp(mode, { host: '127.0.0.1' })
    const { host, secret, tls } = plane
    return openKvTcp(mode, {
      host,
      ...(secret === undefined ? {} : { secret }),
      ...(tls === undefined ? {} : { tls }),
    })
  }

  async #closeEnds(): Promise<void> {
    const { plane } = this.#options
    if (plane.kind === 'local') plane.plane.removeWorker(this.workerId)
    await Promise.all([this.#server?.close(), this.#kv?.close(), this.#admin?.close(0)])
  }
}

/** Below 2^53, so that no JSON reader loses a digit. */
function randomWorkerId(): WorkerId {
  const bytes = randomBytes(8)
  return workerIdOf(bytes.readBigUInt64LE() & ((1n << 53n) - 1n))
}
