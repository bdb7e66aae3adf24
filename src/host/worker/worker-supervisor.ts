/**
 * The worker processes of `baton serve`: starts, watches, restarts and stops them.
 *
 * A failure of the first start is final, because it is most likely a mistake in the command. A worker that has served is
 * started again for as long as this process runs.
 */
import { BatonError, errorOf, withDeadline } from '../../base/index.ts'
import type { Clock, ErrorCode, Timer } from '../../base/index.ts'
import { RestartPauses } from '../process/restart-pauses.ts'
import { WorkerChild } from './worker-child.ts'
import type { WorkerSpec } from './worker-child.ts'

/** Milliseconds within which frontends learn about a new worker; until then the old one stays. */
const SETTLE_MS = 2_500

interface WorkerProcess {
  readonly name: string
  readonly pid: number
  readonly workerId: string
  readonly port: number
}

interface SupervisorOptions {
  /** The script that a child runs. */
  readonly script: string
  readonly clock: Clock
  readonly startDeadlineMs: number
  readonly onEvent: (event: SupervisorEvent) => void
}

export type SupervisorEvent =
  /** The next start is in `againInMs`. */
  | {
      readonly kind: 'died'
      readonly name: string
      readonly pid: number
      readonly how: string
      readonly againInMs: number
    }
  | {
      readonly kind: 'not-started'
      readonly name: string
      readonly code: ErrorCode
      readonly reason: string
      readonly againInMs: number
    }
  | { readonly kind: 'restarted'; readonly worker: WorkerProcess }
  /** On the worker's request: the new one is ready, the old one drains. */
  | { readonly kind: 'replaced'; readonly worker: WorkerProcess; readonly pid: number }
  | { readonly kind: 'not-replaced'; readonly name: string; readonly reason: string }

type Start =
  | { readonly kind: 'up'; readonly worker: WorkerProcess }
  | { readonly kind: 'down'; readonly error: BatonError }

/** A place in the fleet, which is filled by one process after the other. */
interface Post {
  readonly spec: WorkerSpec
  readonly pauses: RestartPauses
  /** The newest process that serves or starts; null: none does. */
  current: WorkerChild | null
  nextStart: Timer | null
}

export class WorkerSupervisor {
  readonly #options: SupervisorOptions
  readonly #posts: Post[] = []
  /** Also those that drain because a replacement serves. */
  readonly #living = new Map<WorkerChild, Post>()
  #stopping = false

  constructor(options: SupervisorOptions) {
    this.#options = options
  }

  /** Starts all at once; throws the first failure after stopping the others. */
  async startAll(specs: readonly WorkerSpec[]): Promise<WorkerProcess[]> {
    const { clock } = this.#options
    const posts = specs.map((spec): Post => ({
      spec,
      pauses: new RestartPauses(clock),
      current: null,
      nextStart: null,
    }))
    this.#posts.push(...posts)
    const starts = await Promise.all(posts.map((post) => this.#start(post)))
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
    this.#startNoMore()
    const killed: string[] = []
    const ending = [...this.#living].map(async ([child, { spec }]) => {
      child.kill('SIGTERM')
      const timer = this.#options.clock.after(deadlineMs, () => {
        killed.push(spec.name)
        child.kill('SIGKILL')
      })
      await child.exited
      timer.cancel()
    })
    await Promise.all(ending)
    return killed
  }

  /** Kills all at once without waiting. */
  kill(): void {
    this.#startNoMore()
    for (const child of this.#living.keys()) child.kill('SIGKILL')
  }

  #startNoMore(): void {
    this.#stopping = true
    for (const post of this.#posts) post.nextStart?.cancel()
  }

  async #start(post: Post): Promise<Start> {
    const { script, clock, startDeadlineMs } = this.#options
    const { name } = post.spec
    const before = post.current
    let child: WorkerChild
    try {
      child = new WorkerChild(script, post.spec)
    } catch (thrown) {
      return isDown(`worker ${name} could not be created: ${errorOf(thrown).message}`)
    }
    post.current = child
    this.#living.set(child, post)
    void child.exited.then(() => this.#living.delete(child))
    child.tell({ kind: 'supervised' })
    const report = await child.firstReport(clock, startDeadlineMs)
    if (typeof report === 'string' || report.kind === 'failed') {
      // Its ports and the memory of its engine must be free before another one starts.
      await child.end(clock)
      post.current = before !== null && !before.hasEnded ? before : null
      return typeof report === 'string'
        ? isDown(`worker ${name} ${report}`)
        : { kind: 'down', error: BatonError.fromValue(report.error) }
    }
    post.pauses.served()
    child.onReplaceWish(() => void this.#replace(post, child))
    void child.exited.then((how) => this.#onDeath(post, child, how))
    const { workerId, port } = report
    return { kind: 'up', worker: { name, pid: child.pid, workerId, port } }
  }

  /** The new process starts first, so that the fleet is never smaller than before. */
  async #replace(post: Post, old: WorkerChild): Promise<void> {
    if (this.#stopping || post.current !== old) return
    const { clock, onEvent } = this.#options
    const start = await this.#start(post)
    if (this.#stopping) return
    if (start.kind === 'down') {
      const { name } = post.spec
      // The old process may have died meanwhile; it was not restarted, because a replacement was starting.
      if (old.hasEnded) this.#onFailedStart(post, start.error)
      else onEvent({ kind: 'not-replaced', name, reason: start.error.message })
      return
    }
    onEvent({ kind: 'replaced', worker: start.worker, pid: old.pid })
    await withDeadline(clock, SETTLE_MS, old.exited)
    old.tell({ kind: 'replaced' })
  }

  #onDeath(post: Post, child: WorkerChild, how: string): void {
    // Another process is the current one already.
    if (this.#stopping || post.current !== child) return
    post.current = null
    const againInMs = this.#startLater(post)
    this.#options.onEvent({ kind: 'died', name: post.spec.name, pid: child.pid, how, againInMs })
  }

  #startLater(post: Post): number {
    const againInMs = post.pauses.failed()
    post.nextStart = this.#options.clock.after(againInMs, () => void this.#startAgain(post))
    return againInMs
  }

  async #startAgain(post: Post): Promise<void> {
    const start = await this.#start(post)
    if (this.#stopping) return
    if (start.kind === 'down') this.#onFailedStart(post, start.error)
    else this.#options.onEvent({ kind: 'restarted', worker: start.worker })
  }

  #onFailedStart(post: Post, { code, message: reason }: BatonError): void {
    const againInMs = this.#startLater(post)
    const { name } = post.spec
    this.#options.onEvent({ kind: 'not-started', name, code, reason, againInMs })
  }
}

function isDown(message: string): Start {
  return { kind: 'down', error: new BatonError('backend.worker_unavailable', message) }
}
