/**
 * Several frontend processes behind one port: starts, watches, restarts and stops them.
 *
 * On Node 20 this process distributes connections to the frontends in turn (`node:cluster`); from Node 24 on the
 * kernel distributes them (`reusePort`), and this process sees none. Messages between frontends go through this
 * process.
 */
import cluster from 'node:cluster'
import type { Worker as ClusterWorker } from 'node:cluster'
import { createServer } from 'node:net'
import { BatonError } from '../../base/index.ts'
import { listenError, TAKEN_PORT_REMEDY } from '../../network/index.ts'
import { isSiblingMessage } from './group-message.ts'
import type { AwaitWorkers, CutOff, FrontendReport, Ping, SiblingMessage } from './group-message.ts'

interface FrontendGroupOptions {
  /** The script that a child runs. */
  readonly script: string
  readonly args: readonly string[]
  /** Added to the environment of this process; undefined removes a variable. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Where the frontends listen; port 0: any free port. */
  readonly host: string
  readonly port: number
  readonly count: number
  readonly startDeadlineMs: number
  /** When more frontends than this die within a minute, they are not started again. */
  readonly restartsPerMinuteMax: number
  /** Interval of pings in ms. A frontend that misses `PINGS_MISSED_MAX` pings in a row is killed. */
  readonly pingMs?: number
  readonly onEvent: (event: FrontendGroupEvent) => void
}

export type FrontendGroupEvent =
  | { readonly kind: 'died'; readonly pid: number; readonly how: string }
  | { readonly kind: 'restarted'; readonly pid: number }
  | { readonly kind: 'gave-up'; readonly reason: string }

/** A frontend that is told to end at once is killed after this time. */
const CUT_OFF_MS = 1_000
const PING_MS = 5_000
/** Pings are counted instead of timed, because nobody could answer while this process itself was suspended. */
const PINGS_MISSED_MAX = 6

/** `listen` supports `reusePort` from Node 23.1 on; 24 is the first long-term release with it. */
export const SHARES_BY_KERNEL =
  process.platform === 'linux' && Number(process.versions.node.split('.')[0]) >= 24

/**
 * With `reusePort` the kernel would silently share a port with another server, so a port in use is detected first.
 */
async function refuseTakenPort({ host, port }: FrontendGroupOptions): Promise<void> {
  if (!SHARES_BY_KERNEL || port === 0) return
  const probe = createServer()
  await new Promise<void>((resolve, reject) => {
    probe.once('error', (error) => reject(listenError(error, { host, port }, TAKEN_PORT_REMEDY)))
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve()))
  })
}

export class FrontendGroup<Card> {
  readonly #options: FrontendGroupOptions
  readonly #children = new Set<ClusterWorker>()
  #port = 0
  /** Rejects when no frontend is left and none will be started; a supervisor may then restart this process. */
  readonly lost: Promise<never>
  #lose: (why: BatonError) => void = () => undefined
  #starting = 0
  #restartsAtMs: number[] = []
  #stopping = false

  constructor(options: FrontendGroupOptions) {
    this.#options = options
    this.lost = new Promise((_, reject) => {
      this.#lose = reject
    })
    this.lost.catch(() => undefined)
    cluster.setupPrimary({ exec: options.script, args: [...options.args] })
  }

  get pids(): readonly number[] {
    return [...this.#children].map((child) => child.process.pid ?? 0)
  }

  /** Resolves with the port when all listen; rejects with the first failure after stopping the others. */
  async start(): Promise<number> {
    try {
      await refuseTakenPort(this.#options)
      this.#port = await this.#fork()
      const others = Array.from({ length: this.#options.count - 1 }, () => this.#fork())
      await Promise.all(others)
      return this.#port
    } catch (thrown) {
      this.kill()
      throw thrown
    }
  }

  /** Resolves with the workers' cards when every frontend is connected to this many workers. */
  async untilConnected(workers: number, deadlineMs: number): Promise<readonly Card[]> {
    const asking = [...this.#children].map((child) => connected<Card>(child, workers, deadlineMs))
    const [cards = []] = await Promise.all(asking)
    return cards
  }

  /** Tells all to drain, and kills those that are left after `deadlineMs`. Returns how many were killed. */
  async stop(deadlineMs: number): Promise<number> {
    this.#stopping = true
    let killed = 0
    await Promise.all(
      [...this.#children].map(async (child) => {
        const exited = new Promise((resolve) => child.once('exit', resolve))
        child.process.kill('SIGTERM')
        const timer = setTimeout(() => {
          killed += 1
          child.process.kill('SIGKILL')
        }, deadlineMs)
        await exited
        clearTimeout(timer)
      }),
    )
    return killed
  }

  /** Tells all to end their replies with an error and to exit, and kills those that are left after a moment. */
  async cutOff(): Promise<void> {
    this.#stopping = true
    await Promise.all(
      [...this.#children].map(async (child) => {
        const exited = new Promise((resolve) => child.once('exit', resolve))
        // A signal could also come from a service manager, which sends it to all processes.
        child.send({ kind: 'cut-off' } satisfies CutOff, () => undefined)
        const timer = setTimeout(() => child.process.kill('SIGKILL'), CUT_OFF_MS)
        await exited
        clearTimeout(timer)
      }),
    )
  }

  kill(): void {
    this.#stopping = true
    for (const child of this.#children) child.process.kill('SIGKILL')
  }

  /** Resolves with the port of the new frontend. */
  async #fork(): Promise<number> {
    const environment: Record<string, string | undefined> = {
      ...process.env,
      ...this.#options.environment,
    }
    if (SHARES_BY_KERNEL && this.#port > 0) environment['BATON_PORT'] = String(this.#port)
    // `fork` would pass an undefined variable as the text "undefined".
    const given = Object.entries(environment).filter(([, value]) => value !== undefined)
    const removed = Object.keys(process.env).filter((name) => environment[name] === undefined)
    const child = forkWithout(removed, Object.fromEntries(given))
    this.#children.add(child)
    child.on('message', (message: unknown) => this.#relay(child, message))
    child.once('exit', () => void this.#children.delete(child))
    const port = await this.#ready(child)
    const watch = this.#watch(child)
    child.once('exit', (code, signal) => {
      watch.end()
      const how = signal ?? `exit code ${code}`
      this.#onDeath(child, watch.isHung() ? 'it did not answer pings' : how)
    })
    return port
  }

  /** A hanging frontend would block the connections that it is given and the messages of its siblings. */
  #watch(child: ClusterWorker): { end(): void; isHung(): boolean } {
    let missed = 0
    const timer = setInterval(() => {
      missed += 1
      if (missed > PINGS_MISSED_MAX) child.process.kill('SIGKILL')
      else if (child.isConnected()) child.send({ kind: 'ping' } satisfies Ping, () => undefined)
    }, this.#options.pingMs ?? PING_MS)
    timer.unref()
    child.on('message', (message: unknown) => {
      if ((message as FrontendReport).kind === 'pong') missed = 0
    })
    return { end: () => clearInterval(timer), isHung: () => missed > PINGS_MISSED_MAX }
  }

  #ready(child: ClusterWorker): Promise<number> {
    return new Promise((resolve, reject) => {
      const fail = (error: BatonError): void => {
        clearTimeout(deadline)
        child.process.kill('SIGKILL')
        reject(error)
      }
      const { startDeadlineMs } = this.#options
      const deadline = setTimeout(() => {
        const text = `a frontend was not ready after ${startDeadlineMs / 1000} s`
        fail(new BatonError('backend.worker_unavailable', text))
      }, startDeadlineMs)
      child.on('message', (message: unknown) => {
        const report = message as FrontendReport
        if (report.kind === 'failed') fail(BatonError.fromValue(report.error))
        if (report.kind !== 'ready') return
        clearTimeout(deadline)
        resolve(report.port)
      })
      child.once('exit', (code, signal) => {
        const text = `a frontend exited during its start (${signal ?? `exit code ${code}`})`
        fail(new BatonError('backend.worker_unavailable', text))
      })
    })
  }

  #relay(from: ClusterWorker, message: unknown): void {
    if (!isSiblingMessage(message)) return
    if (message.kind === 'answered') {
      const asker = [...this.#children].find(({ id }) => id === message.to)
      if (asker !== undefined) send(asker, from.id, message)
      return
    }
    const others = [...this.#children].filter((child) => child !== from && child.isConnected())
    for (const other of others) send(other, from.id, message)
    if (message.kind !== 'asked') return
    send(from, from.id, { kind: 'asking', id: message.id, siblings: others.length })
  }

  #onDeath(child: ClusterWorker, how: string): void {
    if (this.#stopping) return
    this.#options.onEvent({ kind: 'died', pid: child.process.pid ?? 0, how })
    this.#startAgain(null)
  }

  /** `failure`: why the previous start failed. */
  #startAgain(failure: BatonError | null): void {
    const { onEvent, restartsPerMinuteMax } = this.#options
    const nowMs = performance.now()
    this.#restartsAtMs = this.#restartsAtMs.filter((atMs) => nowMs - atMs < 60_000)
    if (this.#restartsAtMs.length >= restartsPerMinuteMax) {
      const text = `${restartsPerMinuteMax} restarts within a minute`
      const reason = failure === null ? text : `${text}; ${failure.message}`
      onEvent({ kind: 'gave-up', reason })
      if (this.#children.size > 0 || this.#starting > 0) return
      this.#lose(new BatonError('backend.worker_unavailable', `no frontend is left: ${reason}`))
      return
    }
    this.#restartsAtMs.push(nowMs)
    this.#starting += 1
    this.#fork().then(
      () => {
        this.#starting -= 1
        onEvent({ kind: 'restarted', pid: this.pids.at(-1) ?? 0 })
      },
      (error: unknown) => {
        this.#starting -= 1
        if (!this.#stopping) this.#startAgain(BatonError.from(error))
      },
    )
  }
}

function send(child: ClusterWorker, from: number, message: SiblingMessage): void {
  if (child.isConnected()) child.send({ from, message }, () => undefined)
}

function connected<Card>(
  child: ClusterWorker,
  workers: number,
  deadlineMs: number,
): Promise<readonly Card[]> {
  return new Promise((resolve, reject) => {
    child.on('message', (message: unknown) => {
      const report = message as FrontendReport<Card>
      if (report.kind === 'connected') resolve(report.cards)
      if (report.kind === 'failed') reject(BatonError.fromValue(report.error))
    })
    child.once('exit', () => {
      reject(new BatonError('backend.worker_unavailable', 'a frontend exited during its start'))
    })
    const ask: AwaitWorkers = { kind: 'await-workers', workers, deadlineMs }
    child.send(ask)
  })
}

/** `cluster.fork` passes all variables of this process to a child and cannot remove one. */
function forkWithout(
  removed: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): ClusterWorker {
  const kept = removed.map((name) => [name, process.env[name]] as const)
  for (const name of removed) delete process.env[name]
  try {
    return cluster.fork(environment)
  } finally {
    for (const [name, value] of kept) if (value !== undefined) process.env[name] = value
  }
}
