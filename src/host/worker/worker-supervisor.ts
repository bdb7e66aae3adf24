/**
 * The worker processes of `baton serve`: starts, watches, restarts and stops them.
 *
 * Each child has an IPC channel. It reports `ready` or `failed` once, and exits when the channel closes, so that
 * nothing is left running when this process is killed. Children are in a process group of their own: Ctrl-C reaches
 * only the supervisor, which first lets the frontend finish and then tells the workers to drain.
 */
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { BatonError } from '../../base/index.ts'
import type { ErrorValue } from '../../base/index.ts'
import type { ShutdownReport } from '../../worker/index.ts'

/** The last message of a worker process: how each stage of its shutdown ended. */
export interface WorkerExitReport {
  readonly kind: 'ended'
  readonly exitCode: number
  readonly stages: ShutdownReport['stages']
}

/** The message of a worker process to its parent when it has started, or failed to. */
export type WorkerReport =
  | {
      readonly kind: 'ready'
      readonly workerId: string
      readonly port: number
      readonly adminPort?: number
    }
  | { readonly kind: 'failed'; readonly error: ErrorValue }

/** A later message of a worker: it wants to be replaced and will then exit. */
export interface WorkerReplaceWish {
  readonly kind: 'replace-me'
}

/**
 * From the parent: first that it restarts this worker on request or when it exits; later that the replacement
 * serves.
 */
export interface SupervisedNotice {
  readonly kind: 'supervised' | 'replaced'
}

/** Milliseconds within which frontends learn about a new worker; until then the old one stays. */
const SETTLE_MS = 2_500

interface WorkerSpec {
  /** The name for display, for example `prefill 1`. */
  readonly name: string
  readonly args: readonly string[]
  /** Added to the environment of this process; undefined removes a variable. */
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
  /** A worker that dies more often than this within a minute is not started again. */
  readonly restartsPerMinuteMax: number
  readonly onEvent: (event: SupervisorEvent) => void
}

export type SupervisorEvent =
  | { readonly kind: 'restarted'; readonly worker: WorkerProcess }
  /** On the worker's request: the new one is ready, the old one drains. */
  | { readonly kind: 'replaced'; readonly worker: WorkerProcess; readonly pid: number }
  | { readonly kind: 'not-replaced'; readonly name: string; readonly reason: string }
  | { readonly kind: 'died'; readonly name: string; readonly pid: number; readonly how: string }
  | { readonly kind: 'gave-up'; readonly name: string; readonly reason: string }

/** The result of a start. An error that the worker reports is final; after a silent death the start is repeated. */
type Start =
  | { readonly kind: 'up'; readonly worker: WorkerProcess }
  | { readonly kind: 'down'; readonly error: BatonError; readonly isFinal: boolean }

interface Child {
  readonly spec: WorkerSpec
  readonly process: ChildProcess
  readonly exited: Promise<string>
}

export class WorkerSupervisor {
  readonly #options: SupervisorOptions
  readonly #children = new Map<string, Child>()
  readonly #restarts = new Map<string, number[]>()
  /** Children that drain because a replacement serves. */
  readonly #leaving = new Set<Child>()
  readonly #replacing = new Set<string>()
  #stopping = false

  constructor(options: SupervisorOptions) {
    this.#options = options
  }

  /** Starts all at once; throws the first failure after stopping the others. */
  async startAll(specs: readonly WorkerSpec[]): Promise<WorkerProcess[]> {
    const starts = await Promise.all(specs.map((spec) => this.#start(spec)))
    const failed = starts.find((start) => start.kind === 'down')
    if (failed !== undefined) {
      this.kill()
      throw failed.error
    }
    return starts.flatMap((start) => (start.kind === 'up' ? [start.worker] : []))
  }

  /**
   * Tells every worker to drain, and kills those that are left after `deadlineMs`. Returns the names of those that
   * were killed.
   */
  async stop(deadlineMs: number): Promise<string[]> {
    this.#stopping = true
    const children = this.#all()
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

  /** Kills all at once without waiting. */
  kill(): void {
    this.#stopping = true
    for (const child of this.#all()) child.process.kill('SIGKILL')
  }

  #all(): readonly Child[] {
    return [...this.#children.values(), ...this.#leaving]
  }

  async #start(spec: WorkerSpec): Promise<Start> {
    const child = fork(this.#options.script, [...spec.args], {
      detached: true,
      env: { ...process.env, ...spec.environment },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const exited = new Promise<string>((resolve) => {
      child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`))
      child.once('error', (error) => resolve(error.message))
    })
    const entry: Child = { spec, process: child, exited }
    const before = this.#children.get(spec.name)
    this.#children.set(spec.name, entry)
    const notice: SupervisedNotice = { kind: 'supervised' }
    child.send(notice, () => undefined)
    const report = await this.#firstReport(child, exited)
    if (typeof report === 'string') {
      const message = `worker ${spec.name} ${report}`
      const error = new BatonError('backend.worker_unavailable', message)
      this.#putBack(spec, before)
      return { kind: 'down', error, isFinal: false }
    }
    if (report.kind === 'failed') {
      this.#putBack(spec, before)
      return { kind: 'down', error: BatonError.fromValue(report.error), isFinal: true }
    }
    const { workerId, port } = report
    const worker = { name: spec.name, pid: child.pid ?? 0, workerId, port }
    child.on('message', (message) => {
      if ((message as WorkerReplaceWish).kind === 'replace-me') void this.#replace(entry)
    })
    exited.then((how) => this.#onDeath(worker, entry, how)).catch(() => this.kill())
    return { kind: 'up', worker }
  }

  /** The first message of the child, or a description of why there is none. */
  #firstReport(child: ChildProcess, exited: Promise<string>): Promise<WorkerReport | string> {
    return new Promise((resolve) => {
      const { startDeadlineMs } = this.#options
      const deadline = setTimeout(() => {
        child.kill('SIGKILL')
        resolve(`was not ready after ${startDeadlineMs / 1000} s`)
      }, startDeadlineMs)
      child.once('message', (message) => {
        clearTimeout(deadline)
        const report = message as WorkerReport | WorkerExitReport
        resolve(report.kind === 'ended' ? 'exited during its start' : report)
      })
      void exited.then((how) => {
        clearTimeout(deadline)
        resolve(`exited during its start (${how})`)
      })
    })
  }

  /** Restores the previous process as the current one, if it is alive. */
  #putBack({ name }: WorkerSpec, before: Child | undefined): void {
    if (before !== undefined && !hasEnded(before)) this.#children.set(name, before)
  }

  /** The new process starts first, so that the fleet is never smaller than before. */
  async #replace(old: Child): Promise<void> {
    const { spec } = old
    const isCurrent = this.#children.get(spec.name) === old
    if (this.#stopping || !isCurrent || this.#replacing.has(spec.name)) return
    this.#replacing.add(spec.name)
    const start = await this.#start(spec)
    this.#replacing.delete(spec.name)
    if (this.#stopping) return
    const { onEvent } = this.#options
    if (start.kind === 'down') {
      onEvent({ kind: 'not-replaced', name: spec.name, reason: start.error.message })
      // The old process may have died meanwhile; it was not restarted, because a replacement was starting.
      if (hasEnded(old)) await this.#startAgain(spec)
      return
    }
    onEvent({ kind: 'replaced', worker: start.worker, pid: old.process.pid ?? 0 })
    if (hasEnded(old)) return
    this.#leaving.add(old)
    await Promise.race([old.exited, sleep(SETTLE_MS, undefined, { ref: false })])
    const notice: SupervisedNotice = { kind: 'replaced' }
    if (old.process.connected) old.process.send(notice, () => undefined)
    await old.exited
    this.#leaving.delete(old)
  }

  async #onDeath(worker: WorkerProcess, { spec, process }: Child, how: string): Promise<void> {
    // Another process is the current one already.
    if (this.#stopping || this.#children.get(spec.name)?.process !== process) return
    this.#children.delete(spec.name)
    this.#options.onEvent({ kind: 'died', name: worker.name, pid: worker.pid, how })
    await this.#startAgain(spec)
  }

  /** Repeats the start until the worker is up, reports an error, or has been started too often. */
  async #startAgain(spec: WorkerSpec): Promise<void> {
    const { restartsPerMinuteMax, onEvent } = this.#options
    let reason = `it died ${restartsPerMinuteMax + 1} times within a minute`
    while (this.#mayStart(spec)) {
      const start = await this.#start(spec)
      if (this.#stopping) return
      if (start.kind === 'up') {
        onEvent({ kind: 'restarted', worker: start.worker })
        return
      }
      reason = start.error.message
      if (start.isFinal) break
    }
    onEvent({ kind: 'gave-up', name: spec.name, reason })
  }

  #mayStart({ name }: WorkerSpec): boolean {
    const now = Date.now()
    const recent = (this.#restarts.get(name) ?? []).filter((atMs) => now - atMs < 60_000)
    if (recent.length >= this.#options.restartsPerMinuteMax) return false
    this.#restarts.set(name, [...recent, now])
    return true
  }
}

function hasEnded({ process }: Child): boolean {
  return process.exitCode !== null || process.signalCode !== null
}
