/**
 * The life of a process with one worker: signals, the parent, the exit code.
 *
 * First SIGTERM or SIGINT: drain and exit with 0. Second: exit with 70 at once. When the parent's IPC channel
 * closes, the parent is gone and this process ends soon. A process that misses its shutdown deadline, or whose
 * engine hangs, exits with 70, so that its supervisor starts another one.
 */
import { BatonError } from '../../base/index.ts'
import type {
  ShutdownConfig,
  ShutdownReport,
  WorkerEvent,
  WorkerObserver,
} from '../../worker/index.ts'
import { DEFAULT_SHUTDOWN } from '../../worker/index.ts'
import { EXIT_IN_HASTE, exitCodeOf } from '../process/exit-codes.ts'
import { createLogger } from '../observe/frontend-log.ts'
import type { LogLevel } from '../observe/frontend-log.ts'
import type { Logger } from 'pino'
import type { DisaggregationMode } from '../../request/index.ts'
import { RoleHold } from '../../router/index.ts'
import { LEAVE_MS } from './worker-answers.ts'
import { HostedWorker } from './hosted-worker.ts'
import type { AdvertisedAddress, HostedWorkerOptions } from './hosted-worker.ts'
import { watchShutdownSignals } from '../process/shutdown-signals.ts'
import { workerLog } from '../observe/worker-log.ts'
import type {
  SupervisedNotice,
  WorkerExitReport,
  WorkerReplaceWish,
  WorkerReport,
} from './worker-report.ts'
import type { WireTls } from '../../network/index.ts'

export interface WorkerProcessOptions extends Omit<
  HostedWorkerOptions,
  'plane' | 'restart' | 'changeRole' | 'roleHold'
> {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** The address that others connect to, when it is not `host` and `port`. */
  readonly advertised?: AdvertisedAddress
  readonly secret?: string
  readonly tls?: WireTls
  /** Log level on standard error. Absent: `warn`. */
  readonly logLevel?: LogLevel
  /**
   * How `ready` or `failed` is reported, and at the end the report of the shutdown stages. Absent: over the IPC
   * channel if there is one, otherwise as lines of JSON on standard output.
   */
  readonly report?: (report: WorkerReport | WorkerExitReport) => void
}

/**
 * Runs until the worker has ended and returns the exit code. The caller must exit with it, because an engine that
 * hangs could keep the process alive. Closes `options.discovery`.
 */
export async function runWorkerProcess(options: WorkerProcessOptions): Promise<number> {
  const life = new WorkerProcessLife(options)
  return await life.run()
}

/**
 * Like `runWorkerProcess`, for a worker whose role an administrator or a controller may change: it drains and ends,
 * and a new worker with a new engine and id replaces it in the same process. `optionsFor` is called before each.
 */
export async function runWorkerInRoles(
  first: DisaggregationMode,
  optionsFor: (role: DisaggregationMode) => Promise<WorkerProcessOptions>,
): Promise<number> {
  let isSupervised = false
  let role = first
  const hold = new RoleHold()
  for (;;) {
    const life = new WorkerProcessLife(await optionsFor(role), { isSupervised, role, hold })
    const exitCode = await life.run()
    if (life.nextRole === null) return exitCode
    isSupervised = life.isSupervised
    role = life.nextRole
  }
}

interface RolesOfLife {
  readonly isSupervised: boolean
  readonly role: DisaggregationMode
  /** Outlives a change of role. */
  readonly hold: RoleHold
}

class WorkerProcessLife {
  readonly #options: WorkerProcessOptions
  readonly #hosted: HostedWorker
  readonly #log: WorkerObserver
  readonly #ended: Promise<number>
  #end: (exitCode: number) => void = () => undefined
  #isStopping = false
  #hasStarted = false
  /** True when its parent starts a replacement on request. */
  isSupervised: boolean
  /** The role of the next worker; set when this one ends for a change of role. */
  nextRole: DisaggregationMode | null = null
  readonly #logger: Logger

  /** `roles`: the roles that it may change to; it has this one now. */
  constructor(options: WorkerProcessOptions, roles: RolesOfLife | null = null) {
    const { host, port, advertised, secret, tls } = options
    const logger = createLogger(options.logLevel ?? 'warn')
    this.#logger = logger
    this.#log = workerLog(logger)
    this.#options = options
    this.isSupervised = roles?.isSupervised ?? false
    this.#hosted = new HostedWorker({
      ...options,
      plane: {
        kind: 'tcp',
        host,
        port,
        ...(advertised === undefined ? {} : { advertised }),
        ...(secret === undefined ? {} : { secret }),
        ...(tls === undefined ? {} : { tls }),
      },
      restart: {
        way: () => (this.isSupervised ? 'replaced' : 'exits'),
        begin: () => this.#restart(),
      },
      ...(roles === null
        ? {}
        : {
            changeRole: (role, why) => this.#changeRole(roles.role, role, why),
            roleHold: roles.hold,
          }),
      observe: (event) => this.#onEvent(event),
      onFault: (error) => logger.error({ err: error }, 'internal error'),
    })
    this.#ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  async run(): Promise<number> {
    const signals = watchShutdownSignals({ onFirst: () => this.#onSignal() })
    const onParentGone = (): void => this.#stop({ routerGraceMs: 0, kvTransferMs: 0 }, 0)
    process.on('disconnect', onParentGone)
    const onMessage = (message: unknown): void => {
      const { kind } = message as SupervisedNotice
      if (kind === 'supervised') this.isSupervised = true
      // Other frontends must learn of it before it stops accepting requests.
      if (kind === 'replaced' && !this.#isStopping) this.#stop(this.#patiently(), 0)
    }
    if (process.send !== undefined) process.on('message', onMessage)
    // The parent may have died while the model's file was read.
    if (process.send !== undefined && !process.connected) onParentGone()
    try {
      const started = await this.#start()
      return started === null ? await this.#ended : started
    } finally {
      await this.#options.discovery.close()
      signals.close()
      process.off('disconnect', onParentGone)
      process.off('message', onMessage)
      if (process.connected && this.nextRole === null) process.disconnect()
    }
  }

  /** Null: the worker runs. Otherwise the exit code. */
  async #start(): Promise<number | null> {
    try {
      const { workerId, port } = await this.#hosted.start()
      this.#hasStarted = true
      const { adminPort } = this.#hosted
      await this.#report({
        kind: 'ready',
        workerId,
        port,
        ...(adminPort === undefined ? {} : { adminPort }),
      })
      return null
    } catch (thrown) {
      if (this.#isStopping) return await this.#ended
      const error = BatonError.from(thrown)
      await this.#report({ kind: 'failed', error: error.toValue() })
      // A parent prints the error itself.
      const isAlone = process.send === undefined && this.#options.report === undefined
      if (isAlone) process.stderr.write(`baton: ${error.message}\n`)
      return exitCodeOf(error)
    }
  }

  #onSignal(): void {
    if (this.nextRole !== null) {
      // It is draining for a change of role already; now it ends for good.
      this.nextRole = null
      return
    }
    if (this.#isStopping) process.exit(EXIT_IN_HASTE)
    this.#stop({}, 0)
  }

  #changeRole(from: DisaggregationMode, to: DisaggregationMode, why: string): void {
    if (this.#isStopping) return
    this.#logger.warn({ from, to, why }, 'the worker drains to change its role')
    this.nextRole = to
    this.#stop(this.#patiently(), 0)
  }

  #patiently(): Partial<ShutdownConfig> {
    const { routerGraceMs, totalMs } = { ...DEFAULT_SHUTDOWN, ...this.#options.shutdown }
    const graceMs = Math.max(routerGraceMs, LEAVE_MS)
    return { routerGraceMs: graceMs, totalMs: totalMs - routerGraceMs + graceMs }
  }

  #restart(): void {
    const wish: WorkerReplaceWish = { kind: 'replace-me' }
    if (this.isSupervised && process.connected) process.send?.(wish, undefined, {}, () => undefined)
    else if (!this.#isStopping) this.#stop({}, 0)
  }

  #onEvent(event: WorkerEvent): void {
    this.#log(event)
    this.#options.observe?.(event)
    // A hung engine cannot be waited for, only replaced.
    if (event.kind === 'engine-stalled') {
      this.#stop({ routerGraceMs: 0, inflightMs: 0, kvTransferMs: 0 }, EXIT_IN_HASTE)
    }
  }

  #stop(overrides: Partial<ShutdownConfig>, exitCode: number): void {
    if (this.#isStopping) {
      // The parent left or the engine hung while this process was draining, so it stops waiting.
      this.#hosted.worker.hurry()
      return
    }
    this.#isStopping = true
    // The process would wait for an unavailable discovery service, which is not needed any more.
    if (!this.#hasStarted) void this.#options.discovery.close().catch(() => undefined)
    const { totalMs, forceExitAfterMs } = {
      ...DEFAULT_SHUTDOWN,
      ...this.#options.shutdown,
      ...overrides,
    }
    const force = setTimeout(() => process.exit(EXIT_IN_HASTE), totalMs + forceExitAfterMs)
    this.#hosted
      .stop(overrides)
      .then(
        (report) => this.#sayGoodbye(report, exitCode === 0 ? report.exitCode : exitCode),
        () => this.#end(EXIT_IN_HASTE),
      )
      .finally(() => clearTimeout(force))
  }

  async #sayGoodbye({ stages }: ShutdownReport, exitCode: number): Promise<void> {
    const isOrphan = process.send !== undefined && !process.connected
    const rounded = stages.map((stage) => ({ ...stage, elapsedMs: Math.round(stage.elapsedMs) }))
    if (!isOrphan && this.nextRole === null)
      await this.#report({ kind: 'ended', exitCode, stages: rounded })
    this.#end(exitCode)
  }

  /** Resolves when the report has been sent, because an exit right after it must not lose it. */
  #report(report: WorkerReport | WorkerExitReport): Promise<void> {
    const { report: tell } = this.#options
    if (tell !== undefined) return Promise.resolve(tell(report))
    return new Promise((resolve) => {
      // The parent may have closed the channel meanwhile; its 'disconnect' event handles that.
      if (process.send !== undefined && process.connected) {
        process.send(report, undefined, {}, () => resolve())
      } else process.stdout.write(`${JSON.stringify(report)}\n`, () => resolve())
    })
  }
}
