/**
 * One worker process of `baton serve`: its creation, its first report and its end.
 *
 * It has an IPC channel. It reports `ready` or `failed` once, and exits when the channel closes, so that nothing is left
 * running when this process is killed. It is in a process group of its own: Ctrl-C reaches only this process, which
 * first lets the frontend finish and then tells the workers to drain.
 */
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { withDeadline } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type {
  SupervisedNotice,
  WorkerExitReport,
  WorkerReplaceWish,
  WorkerReport,
} from './worker-report.ts'

export interface WorkerSpec {
  /** The name for display, for example `prefill 1`. */
  readonly name: string
  readonly args: readonly string[]
  /** Added to the environment of this process; undefined removes a variable. */
  readonly environment?: Readonly<Record<string, string | undefined>>
}

/** A process that has failed to start is killed if it has not exited after this time. */
const EXIT_MS = 5_000

export class WorkerChild {
  /** Resolves with the cause of its end. */
  readonly exited: Promise<string>
  readonly #process: ChildProcess
  #hasEnded = false

  /** Throws when the system cannot create a process, for example for lack of memory. */
  constructor(script: string, spec: WorkerSpec) {
    const child = fork(script, [...spec.args], {
      detached: true,
      env: { ...process.env, ...spec.environment },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    this.#process = child
    this.exited = new Promise((resolve) => {
      const end = (how: string): void => {
        this.#hasEnded = true
        resolve(how)
      }
      child.once('exit', (code, signal) => end(signal ?? `exit code ${code}`))
      child.on('error', (error) => {
        if (child.pid === undefined) end(error.message)
      })
    })
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** The channel is closed, or was never opened, when the process has ended. */
  tell(notice: SupervisedNotice): void {
    if (this.#process.connected) this.#process.send(notice, () => undefined)
  }

  onReplaceWish(listener: () => void): void {
    this.#process.on('message', (message) => {
      if ((message as WorkerReplaceWish).kind === 'replace-me') listener()
    })
  }

  kill(signal: 'SIGTERM' | 'SIGKILL'): void {
    this.#process.kill(signal)
  }

  /** Its first message, or a description of why there is none. */
  firstReport(clock: Clock, deadlineMs: number): Promise<WorkerReport | string> {
    return new Promise((resolve) => {
      const deadline = clock.after(deadlineMs, () => {
        this.kill('SIGKILL')
        resolve(`was not ready after ${deadlineMs / 1000} s`)
      })
      this.#process.once('message', (message) => {
        deadline.cancel()
        const report = message as WorkerReport | WorkerExitReport
        resolve(report.kind === 'ended' ? 'exited during its start' : report)
      })
      void this.exited.then((how) => {
        deadline.cancel()
        resolve(`exited during its start (${how})`)
      })
    })
  }

  /** Waits until it has exited by itself, and kills it when that takes long. A process stuck in a driver may remain. */
  async end(clock: Clock): Promise<void> {
    const byItself = await withDeadline(clock, EXIT_MS, this.exited)
    if (byItself.kind === 'done') return
    this.kill('SIGKILL')
    await withDeadline(clock, EXIT_MS, this.exited)
  }
}
