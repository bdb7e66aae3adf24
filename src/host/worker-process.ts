/**
 * The life of a process that is one worker: signals, the parent, the exit code.
 *
 * First SIGTERM or SIGINT: drain and exit with 0. Second: exit with 70 at once. The parent's IPC channel closes: the
 * parent is gone, and so is this process soon. A process that overstays its budget, or whose engine hangs, exits
 * with 70, so that whoever supervises it starts another.
 */
import { BatonError } from '../base/index.ts'
import type {
  ShutdownConfig,
  ShutdownReport,
  WorkerEvent,
  WorkerObserver,
} from '../worker/index.ts'
import { DEFAULT_SHUTDOWN } from '../worker/index.ts'
import { EXIT_FAILED, EXIT_IN_HASTE } from './exit-codes.ts'
import { createLogger } from './frontend-log.ts'
import type { LogLevel } from './frontend-log.ts'
import { HostedWorker } from './hosted-worker.ts'
import type { HostedWorkerOptions } from './hosted-worker.ts'
import { watchShutdownSignals } from './shutdown-signals.ts'
import { workerLog } from './worker-log.ts'
import type { WorkerFarewell, WorkerReport } from './worker-supervisor.ts'
import type { WireTls } from './planes/wire-tls.ts'

export interface WorkerProcessOptions extends Omit<HostedWorkerOptions, 'plane'> {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly secret?: string
  readonly tls?: WireTls
  /** Of what the worker reports, on standard error. Absent: `warn`. */
  readonly logLevel?: LogLevel
  /**
   * How `ready` or `failed` is said, and at the end the report of the stages. Absent: over the IPC channel when there is
   * one, else as lines of JSON on standard output.
   */
  readonly report?: (report: WorkerReport | WorkerFarewell) => void
}

/**
 * Runs until the worker has ended and returns the exit code. The caller exits with it: an engine that hangs may keep
 * the process alive otherwise. Closes `options.discovery`.
 */
export async function runWorkerProcess(options: WorkerProcessOptions): Promise<number> {
  const life = new WorkerProcessLife(options)
  return await life.run()
}

class WorkerProcessLife {
  readonly #options: WorkerProcessOptions
  readonly #hosted: HostedWorker
  readonly #log: WorkerObserver
  readonly #ended: Promise<number>
  #end: (exitCode: number) => void = () => undefined
  #isStopping = false

  constructor(options: WorkerProcessOptions) {
    const { host, port, secret, tls } = options
    const logger = createLogger(options.logLevel ?? 'warn')
    this.#log = workerLog(logger)
    this.#options = options
    this.#hosted = new HostedWorker({
      ...options,
      plane: {
        kind: 'tcp',
        host,
        port,
        ...(secret === undefined ? {} : { secret }),
        ...(tls === undefined ? {} : { tls }),
      },
      observe: (event) => this.#onEvent(event),
      onFault: (error) => logger.error({ err: error }, 'fault of ours'),
    })
    this.#ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  async run(): Promise<number> {
    const signals = watchShutdownSignals({ onFirst: () => this.#onSignal() })
    const onParentGone = (): void => this.#stop({ routerGraceMs: 0, kvTransferMs: 0 }, 0)
    process.on('disconnect', onParentGone)
    // It may have gone while the model's file was looked at.
    if (process.send !== undefined && !process.connected) onParentGone()
    try {
      const started = await this.#start()
      return started === null ? await this.#ended : started
    } finally {
      await this.#options.discovery.close()
      signals.close()
      process.off('disconnect', onParentGone)
      if (process.connected) process.disconnect()
    }
  }

  /** Null: it runs. Otherwise the exit code. */
  async #start(): Promise<number | null> {
    try {
      const { workerId, port } = await this.#hosted.start()
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
      await this.#report({ kind: 'failed', error: BatonError.from(thrown).toValue() })
      return EXIT_FAILED
    }
  }

  #onSignal(): void {
    if (this.#isStopping) process.exit(EXIT_IN_HASTE)
    this.#stop({}, 0)
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
      // The parent left or the engine hung while this process was draining: nobody waits for it any more.
      this.#hosted.worker.hurry()
      return
    }
    this.#isStopping = true
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
    if (!isOrphan) await this.#report({ kind: 'ended', exitCode, stages: rounded })
    this.#end(exitCode)
  }

  /** Resolves when the report has left this process: an exit right after it must not swallow it. */
  #report(report: WorkerReport | WorkerFarewell): Promise<void> {
    const { report: tell } = this.#options
    if (tell !== undefined) return Promise.resolve(tell(report))
    return new Promise((resolve) => {
      // A parent that has closed the channel in the meantime is noticed by its 'disconnect'.
      if (process.send !== undefined && process.connected) {
        process.send(report, undefined, {}, () => resolve())
      } else process.stdout.write(`${JSON.stringify(report)}\n`, () => resolve())
    })
  }
}
