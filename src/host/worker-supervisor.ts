/**
 * Worker processes of one `baton serve`: started, watched, started again when they die, and ended.
 *
 * Each child has an IPC channel; it says `ready` or `failed` once, and ends by itself when the channel closes, so
 * that nothing is left running when this process is killed. Children are in a process group of their own: Ctrl-C
 * reaches the supervisor only, which first lets the frontend finish and then asks the workers to drain.
 */
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { BatonError } from '../base/index.ts'
import type { ErrorValue } from '../base/index.ts'
import type { ShutdownReport } from '../worker/index.ts'

/** The last thing that a worker process says: how each stage of its way down ended. */
export interface WorkerFarewell {
  readonly kind: 'ended'
  readonly exitCode: number
  readonly stages: ShutdownReport['stages']
}

/** What a worker process tells its parent when it has come up, or has not. */
export type WorkerReport =
  | {
      readonly kind: 'ready'
      readonly workerId: string
      readonly port: number
      readonly adminPort?: number
    }
  | { readonly kind: 'failed'; readonly error: ErrorValue }

interface WorkerSpec {
  /** What the user calls it: `prefill 1`. */
  readonly name: string
  readonly args: readonly string[]
  /** Added to this process's own; undefined takes a variable away. */
  readonly environment?: Readonly<Record<string, string | undefined>>
}

interface WorkerProcess {
  readonly name: string
  readonly pid: number
  readonly workerId: string
  readonly port: number
}

interface SupervisorOptions {
  /** The script that a child runs. */
  readonly script: string
  readonly startDeadlineMs: number
  /** A worker that dies more often than this within a minute stays down. */
  readonly restartsPerMinuteMax: number
  readonly onEvent: (event: SupervisorEvent) => void
}

export type SupervisorEvent =
  | { readonly kind: 'restarted'; readonly worker: WorkerProcess }
  | { readonly kind: 'died'; readonly name: string; readonly pid: number; readonly how: string }
  | { readonly kind: 'gave-up'; readonly name: string; readonly reason: string }

interface Child {
  readonly spec: WorkerSpec
  readonly process: ChildProcess
  readonly exited: Promise<string>
}

export class WorkerSupervisor {
  readonly #options: SupervisorOptions
  readonly #children = new Map<string, Child>()
  readonly #restarts = new Map<string, number[]>()
  #stopping = false

  constructor(options: SupervisorOptions) {
    this.#options = options
  }

  /** Starts all at once; throws the first failure, having ended the others. */
  async startAll(specs: readonly WorkerSpec[]): Promise<WorkerProcess[]> {
    const results = await Promise.allSettled(specs.map((spec) => this.#start(spec)))
    const failed = results.find((result) => result.status === 'rejected')
    if (failed !== undefined) {
      this.kill()
      throw failed.reason
    }
    return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  }

  /** Asks every worker to drain, kills after `deadlineMs`. Returns the names of those that had to be killed. */
  async stop(deadlineMs: number): Promise<string[]> {
    this.#stopping = true
    const children = [...this.#children.values()]
    for (const child of children) child.process.kill('SIGTERM')
    const killed: string[] = []
    await Promise.all(
      children.map(async (child) => {
        const timer = setTimeout(() => {
          killed.push(child.spec.name)
          child.process.kill('SIGKILL')
        }, deadlineMs)
        await child.exited
        clearTimeout(timer)
      }),
    )
    return killed
  }

  /** At once; nothing is waited for. */
  kill(): void {
    this.#stopping = true
    for (const child of this.#children.values()) child.process.kill('SIGKILL')
  }

  async #start(spec: WorkerSpec): Promise<WorkerProcess> {
    const child = fork(this.#options.script, [...spec.args], {
      detached: true,
      env: { ...process.env, ...spec.environment },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const exited = new Promise<string>((resolve) => {
      child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`))
      child.once('error', (error) => resolve(error.message))
    })
    this.#children.set(spec.name, { spec, process: child, exited })
    const report = await this.#firstReport(spec, child, exited)
    if (report.kind === 'failed') throw BatonError.fromValue(report.error)
    const { workerId, port } = report
    const worker = { name: spec.name, pid: child.pid ?? 0, workerId, port }
    exited.then((how) => this.#onDeath(worker, spec, how)).catch(() => this.kill())
    return worker
  }

  #firstReport(
    spec: WorkerSpec,
    child: ChildProcess,
    exited: Promise<string>,
  ): Promise<WorkerReport> {
    return new Promise((resolve, reject) => {
      const fail = (message: string) =>
        reject(new BatonError('backend.worker_unavailable', `worker ${spec.name} ${message}`))
      const deadline = setTimeout(() => {
        child.kill('SIGKILL')
        fail(`was not ready after ${this.#options.startDeadlineMs / 1000} s`)
      }, this.#options.startDeadlineMs)
      child.once('message', (message) => {
        clearTimeout(deadline)
        const report = message as WorkerReport | WorkerFarewell
        if (report.kind === 'ended') fail('ended while it started')
        else resolve(report)
      })
      exited.then(
        (how) => {
          clearTimeout(deadline)
          fail(`ended while it started (${how})`)
        },
        (error: unknown) => reject(BatonError.from(error)),
      )
    })
  }

  async #onDeath(worker: WorkerProcess, spec: WorkerSpec, how: string): Promise<void> {
    if (this.#stopping) return
    this.#children.delete(spec.name)
    this.#options.onEvent({ kind: 'died', name: worker.name, pid: worker.pid, how })
    const now = Date.now()
    const recent = (this.#restarts.get(spec.name) ?? []).filter((atMs) => now - atMs < 60_000)
    if (recent.length >= this.#options.restartsPerMinuteMax) {
      const reason = `it died ${recent.length + 1} times within a minute`
      this.#options.onEvent({ kind: 'gave-up', name: spec.name, reason })
      return
    }
    this.#restarts.set(spec.name, [...recent, now])
    try {
      this.#options.onEvent({ kind: 'restarted', worker: await this.#start(spec) })
    } catch (error) {
      if (this.#stopping) return
      this.#options.onEvent({
        kind: 'gave-up',
        name: spec.name,
        reason: BatonError.from(error).message,
      })
    }
  }
}
