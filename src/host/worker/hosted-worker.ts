/**
 * A worker with everything that a process adds: a request plane, a KV transport, an entry in discovery.
 *
 * Used by `baton worker` (TCP) and by `--in-process` (direct calls). The address is opened after the engine has
 * started, so that a worker that cannot serve is not reachable.
 */
import { randomBytes } from 'node:crypto'
import { BatonError, workerIdOf } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type { Engine } from '../../engine/index.ts'
import type {
  DisaggregationMode,
  EngineConfig,
  ModelAgreement,
  WorkerCard,
} from '../../request/index.ts'
import { Worker } from '../../worker/index.ts'
import type {
  ShutdownConfig,
  ShutdownReport,
  WorkerAddress,
  WorkerEvent,
  WorkerLimits,
  WorkerObserver,
} from '../../worker/index.ts'
import type { Discovery } from '../../discovery/index.ts'
import type { ModelText } from '../../text/index.ts'
import type { RoleHold } from '../../router/index.ts'
import { osClock } from '../../os/index.ts'
import { openKvTcp } from '../../network/index.ts'
import type { OpenKv } from '../../network/index.ts'
import type { LocalRequestPlane } from '../../network/index.ts'
import type { HttpServer } from '../../network/index.ts'
import { TcpWorkerServer } from '../../network/index.ts'
import type { WireTls } from '../../network/index.ts'
import { modelAgreementOf } from '../tokenizer/model-digest.ts'
import { loadModelText } from '../tokenizer/model-files.ts'
import { PeerReports } from './peer-reports.ts'
import { TextFiles } from '../tokenizer/text-files.ts'
import { weightsFingerprint } from '../tokenizer/weights-fingerprint.ts'
import { listenWorkerAdmin } from './worker-admin.ts'
import { HostedAnswers } from './worker-answers.ts'
import type { ChangeRole, WorkerRestart } from './worker-answers.ts'
import type { TracesOfWorkers } from '../traces/traces.ts'
import { WorkerMetrics } from '../observe/worker-metrics.ts'

export interface AdvertisedAddress {
  readonly host: string
  /** Absent: the port on which the worker listens. */
  readonly port?: number
}

/** How requests reach the worker. */
export type WorkerPlane =
  | {
      readonly kind: 'tcp'
      readonly host: string
      /** 0: any free port. */
      readonly port: number
      /** The address that others connect to, when it differs from the listening address. */
      readonly advertised?: AdvertisedAddress
      readonly secret?: string
      readonly tls?: WireTls
    }
  | { readonly kind: 'local'; readonly plane: LocalRequestPlane }

export interface HostedWorkerOptions {
  readonly engine: Engine
  /** Returns the text of the model at a path if it has been read already; called once. Absent: the worker reads it. */
  readonly takeModelText?: (modelPath: string) => ModelText | null
  /** The chat template of an engine that has its own; called after its start. Null: that of its model's files. */
  readonly engineTemplate?: () => string | null
  readonly engineName: string
  readonly mode: DisaggregationMode
  readonly plane: WorkerPlane
  readonly discovery: Discovery
  readonly version: string
  /** Absent: a random one. */
  readonly workerId?: WorkerId
  /** Absent: over TCP, on the address of the plane. Called when the engine has started and keeps KV blocks. */
  readonly openKv?: (mode: DisaggregationMode) => Promise<OpenKv>
  readonly limits?: Partial<WorkerLimits>
  /** Overrides parts of the engine's reported configuration. */
  readonly describe?: (config: EngineConfig) => EngineConfig
  readonly shutdown?: Partial<ShutdownConfig>
  readonly observe?: WorkerObserver
  /** Makes spans of the worker's requests. */
  readonly traces?: Pick<TracesOfWorkers, 'observe'>
  /** Called for an internal error, to be logged. */
  readonly onFault?: (error: unknown) => void
  readonly taints?: readonly string[]
  readonly topology?: Readonly<Record<string, string>>
  /** Traffic weight among several versions of the model. */
  readonly weight?: number
  /** Label of the model's version under its name. Absent: derived from the model's weights, if they can be read. */
  readonly modelVersion?: string
  /** Starts the change to another role, which ends this worker. Absent: the role is fixed. */
  readonly changeRole?: ChangeRole
  /** With `changeRole`: what it has promised to frontends about its role. */
  readonly roleHold?: RoleHold
  /** How the worker comes back after an administrator's restart; absent: it does not. */
  readonly restart?: WorkerRestart
  /** Added to the engine's configuration in the worker's card. */
  readonly runtimeData?: Readonly<Record<string, unknown>>
  /** Health, metrics and commands over HTTP; absent: no such port. */
  readonly admin?: { readonly host: string; readonly port: number; readonly token?: string }
}

export class HostedWorker {
  readonly worker: Worker
  readonly metrics: WorkerMetrics
  readonly #options: HostedWorkerOptions
  readonly #peerReports: PeerReports
  #admin: HttpServer | null = null
  #server: TcpWorkerServer | null = null
  #kv: OpenKv | null = null
  #closing: Promise<ShutdownReport> | null = null

  constructor(options: HostedWorkerOptions) {
    const { engine, engineName, mode, version, limits, shutdown, taints, topology } = options
    const workerId = options.workerId ?? randomWorkerId()
    this.#options = options
    this.#peerReports = new PeerReports((event) => this.#observe(event))
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
      observe: (event) => this.#observe(event),
      clock: osClock,
      pid: process.pid,
      describe: options.describe,
      ...(limits === undefined ? {} : { limits }),
      ...(shutdown === undefined ? {} : { shutdown }),
      ...(taints === undefined ? {} : { taints }),
      ...(topology === undefined ? {} : { topology }),
      ...(options.weight === undefined ? {} : { weight: options.weight }),
      ...(options.changeRole === undefined ? {} : { changesRole: true }),
      ...(options.runtimeData === undefined ? {} : { runtimeData: options.runtimeData }),
    })
  }

  /** The actual admin port, after `start` was called. */
  get adminPort(): number | undefined {
    return this.#admin?.port
  }

  get workerId(): WorkerId {
    return this.worker.workerId
  }

  /** Rejects with the reason, after releasing everything. */
  async start(): Promise<WorkerCard> {
    try {
      await this.#openAdmin()
      return await this.worker.start({
        open: (config) => this.#open(config),
        register: (card) =>
          this.#options.discovery.register(card, {
            restored: (why) => this.#observe({ kind: 'entry-restored', why }),
            renewalFailed: (error) =>
              this.#observe({ kind: 'renewal-failed', error: error.toValue() }),
          }),
      })
    } catch (error) {
      await this.#closeEnds()
      throw error
    }
  }

  /** Shuts down in order; idempotent. */
  stop(overrides: Partial<ShutdownConfig> = {}): Promise<ShutdownReport> {
    this.#closing ??= this.#stop(overrides)
    return this.#closing
  }

  async #stop(overrides: Partial<ShutdownConfig>): Promise<ShutdownReport> {
    const report = await this.worker.stop(overrides)
    await this.#closeEnds()
    return report
  }

  #observe(event: WorkerEvent): void {
    this.metrics.observe(event)
    const { mode, traces } = this.#options
    traces?.observe(event, { workerId: this.workerId, mode })
    this.#options.observe?.(event)
  }

  async #open(config: EngineConfig): Promise<WorkerAddress> {
    const { engine, mode, plane, version } = this.#options
    const agreement = await this.#agreement(config)
    const files = await textFilesOf(config)
    const text = files === null ? {} : { text: files.manifest }
    if (engine.kvBlocks !== undefined && mode !== 'agg') this.#kv = await this.#openKv()
    const kv = this.#kv?.ends ?? {}
    if (plane.kind === 'local') {
      const uplink = plane.plane.addWorker(this.workerId, this.worker)
      plane.plane.setAnswers(this.workerId, this.#answers(files))
      return { host: 'in-process', port: 0, uplink, kv, agreement }
    }
    const { host, port, secret, tls, advertised = { host } } = plane
    const server = await TcpWorkerServer.listen({
      handler: this.worker,
      answers: this.#answers(files),
      host,
      port,
      workerId: this.workerId,
      software: `baton ${version}`,
      onPeerGone: (reason, wasReady) => this.#peerReports.gone(reason, wasReady),
      ...(secret === undefined ? {} : { secret }),
      ...(tls === undefined ? {} : { tls }),
    })
    this.#server = server
    return { port: server.port, ...advertised, uplink: server, kv, agreement, ...text }
  }

  /** Files that cannot be read here are not compared: an engine may load its model from elsewhere. */
  async #agreement(engine: EngineConfig): Promise<ModelAgreement> {
    const { modelVersion, takeModelText } = this.#options
    const { modelPath } = engine
    const engineTemplate = this.#options.engineTemplate?.() ?? null
    if (modelPath === undefined) {
      return modelAgreementOf(engine, { text: null, engineTemplate, weights: modelVersion ?? null })
    }
    const text = takeModelText?.(modelPath) ?? (await this.#modelText(modelPath))
    const weights = modelVersion ?? (await weightsFingerprint(modelPath))
    return modelAgreementOf(engine, { text, engineTemplate, weights })
  }

  async #modelText(modelPath: string): Promise<ModelText | null> {
    try {
      return await loadModelText(modelPath)
    } catch (thrown) {
      this.#observe({ kind: 'model-unreadable', error: BatonError.from(thrown).toValue() })
      return null
    }
  }

  #answers(files: TextFiles | null): HostedAnswers {
    return new HostedAnswers({
      worker: this.worker,
      restart: this.#options.restart,
      changeRole: this.#options.changeRole,
      roleHold: this.#options.roleHold,
      now: () => osClock.nowMs(),
      textPiece: async (question) => {
        if (files !== null) return await files.piece(question)
        throw new BatonError('request.not_found', "the model's files cannot be read here")
      },
    })
  }

  /** Opened before the engine starts, so that a supervisor can see that the process is alive. */
  async #openAdmin(): Promise<void> {
    const { admin } = this.#options
    if (admin === undefined) return
    this.#admin = await listenWorkerAdmin({
      ...admin,
      worker: this.worker,
      metrics: (accept) => this.metrics.page(accept),
      onFault: (error) => this.#options.onFault?.(error),
    })
  }

  #openKv(): Promise<OpenKv> {
    const { mode, plane, openKv } = this.#options
    if (openKv !== undefined) return openKv(mode)
    if (plane.kind === 'local') return openKvTcp(mode, { host: '127.0.0.1' })
    const { host, secret, tls, advertised } = plane
    return openKvTcp(mode, {
      host,
      ...(advertised === undefined ? {} : { advertisedHost: advertised.host }),
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

async function textFilesOf({ modelPath }: EngineConfig): Promise<TextFiles | null> {
  return modelPath === undefined ? null : await TextFiles.at(modelPath).catch(() => null)
}

/** Below 2^53, so that no JSON parser loses a digit. */
function randomWorkerId(): WorkerId {
  const bytes = randomBytes(8)
  return workerIdOf(bytes.readBigUInt64LE() & ((1n << 53n) - 1n))
}
