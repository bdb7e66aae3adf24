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
import type { Clock, Timer } from '../../base/index.ts'
import type { FleetNote } from '../../frontend/index.ts'
import { listenError, TAKEN_PORT_REMEDY } from '../../network/index.ts'
import { RestartPauses } from '../process/restart-pauses.ts'
import { isSiblingMessage } from './group-message.ts'
import type { FrontendReport, ParentMessage, SiblingMessage } from './group-message.ts'

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
  readonly clock: Clock
  readonly startDeadlineMs: number
  /** Interval of pings in ms. A frontend that misses `PINGS_MISSED_MAX` pings in a row is killed. */
  readonly pingMs?: number
  readonly onEvent: (event: FrontendGroupEvent) => void
}

/** `place`: 0 to the number of frontends - 1; `againInMs`: when it is started again, null if the group is lost. */
export type FrontendGroupEvent =
  | {
      readonly kind: 'died'
      readonly place: number
      readonly pid: number
      readonly how: string
      readonly againInMs: number | null
    }
  | {
      readonly kind: 'not-started'
      readonly place: number
      readonly reason: string
      readonly againInMs: number | null
    }
  | { readonly kind: 'restarted'; readonly place: number; readonly pid: number }

/** A place in the group, which is filled by one process after the other. */
interface Place {
  readonly index: number
  readonly pauses: RestartPauses
  nextStart: Timer | null
}

/** A frontend that is told to end at once is killed after this time. */
const CUT_OFF_MS = 1_000
const PING_MS = 5_000
/** Pings are counted instead of timed, because nobody could answer while this process itself was suspended. */
const PINGS_MISSED_MAX = 6
/** When no frontend is left, the group is lost after this many failures of one in a row, which take 15 s. */
const FAILURES_ALONE_MAX = 5

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
  readonly #places: readonly Place[]
  readonly #children = new Set<ClusterWorker>()
  readonly #notes = new Map<string, FleetNote>()
  #port = 0
  /** Rejects when no frontend is left and starts keep failing; a supervisor may then restart this process. */
  readonly lost: Promise<never>
  #lose: (why: BatonError) => void = () => undefined
  #stopping = false

  constructor(options: FrontendGroupOptions) {
    this.#options = options
    this.#places = Array.from({ length: options.count }, (_, index) => ({
      index,
      pauses: new RestartPauses(options.clock),
      nextStart: null,
    }))
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
      const [first, ...others] = this.#places
      if (first !== undefined) this.#port = (await this.#fork(first)).port
      await Promise.all(others.map((place) => this.#fork(place)))
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

  /** Sets a warning of `/health` at all frontends, also at those that start later; null removes it. */
  note(name: string, note: FleetNote | null): void {
    if (note === null) this.#notes.delete(name)
    else this.#notes.set(name, note)
    for (const child of this.#children) tell(child, { kind: 'note', name, note })
  }

  /** Tells all to drain, and kills those that are left after `deadlineMs`. Returns how many were killed. */
  async stop(deadlineMs: number): Promise<number> {
    this.#startNoMore()
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
    this.#startNoMore()
    await Promise.all(
      [...this.#children].map(async (child) => {
        const exited = new Promise((resolve) => child.once('exit', resolve))
        // A signal could also come from a service manager, which sends it to all processes.
        tell(child, { kind: 'cut-off' })
        const timer = setTimeout(() => child.process.kill('SIGKILL'), CUT_OFF_MS)
        await exited
        clearTimeout(timer)
      }),
    )
  }

  kill(): void {
    this.#startNoMore()
    for (const child of this.#children) child.process.kill('SIGKILL')
  }

  #startNoMore(): void {
    this.#stopping = true
    for (const place of this.#places) place.nextStart?.cancel()
  }

  /** Resolves when the new frontend listens. */
  async #fork(place: Place): Promise<{ readonly port: number; readonly pid: number }> {
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
    place.pauses.served()
    const watch = this.#watch(child)
    child.once('exit', (code, signal) => {
      watch.end()
      const how = signal ?? `exit code ${code}`
      this.#onDeath(place, child, watch.isHung() ? 'it did not answer pings' : how)
    })
    for (const [name, note] of this.#notes) tell(child, { kind: 'note', name, note })
    return { port, pid: child.process.pid ?? 0 }
  }

  /** A hanging frontend would block the connections that it is given and the messages of its siblings. */
  #watch(child: ClusterWorker): { end(): void; isHung(): boolean } {
    let missed = 0
    const timer = setInterval(() => {
      missed += 1
      if (missed > PINGS_MISSED_MAX) child.process.kill('SIGKILL')
      else tell(child, { kind: 'ping' })
    }, this.#options.pingMs ?? PING_MS)
    timer.unref()
    child.on('message', (message: unknown) => {
      if ((message as FrontendReport).kind === 'pong') missed = 0
    })
    return { end: () => clearInterval(timer), isHung: () => missed > PINGS_MISSED_MAX }
  }

  /** Resolves with its port. Rejects when a frontend that cannot start has exited, so that it is not counted as left. */
  #ready(child: ClusterWorker): Promise<number> {
    return new Promise((resolve, reject) => {
      let failure: BatonError | null = null
      const fail = (error: BatonError): void => {
        failure ??= error
        child.process.kill('SIGKILL')
      }
      const { startDeadlineMs } = this.#options
      const deadline = setTimeout(() => {
        fail(unavailable(`a frontend was not ready after ${startDeadlineMs / 1000} s`))
      }, startDeadlineMs)
      child.on('message', (message: unknown) => {
        const report = message as FrontendReport
        if (report.kind === 'failed') fail(BatonError.fromValue(report.error))
        if (report.kind !== 'ready') return
        clearTimeout(deadline)
        resolve(report.port)
      })
      child.once('exit', (code, signal) => {
        clearTimeout(deadline)
        const how = signal ?? `exit code ${code}`
        reject(failure ?? unavailable(`a frontend exited during its start (${how})`))
      })
      child.on('error', (error) => {
        // Without a process there is no exit.
        if (child.process.pid !== undefined) return
        clearTimeout(deadline)
        this.#children.delete(child)
        reject(unavailable(`a frontend could not be created: ${error.message}`))
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

  #onDeath(place: Place, child: ClusterWorker, how: string): void {
    if (this.#stopping) return
    const againInMs = this.#startLater(place, `it died (${how})`)
    const pid = child.process.pid ?? 0
    this.#options.onEvent({ kind: 'died', place: place.index, pid, how, againInMs })
  }

  async #startAgain(place: Place): Promise<void> {
    const { onEvent } = this.#options
    try {
      const { pid } = await this.#fork(place)
      if (!this.#stopping) onEvent({ kind: 'restarted', place: place.index, pid })
    } catch (thrown) {
      if (this.#stopping) return
      const reason = BatonError.from(thrown).message
      const againInMs = this.#startLater(place, reason)
      onEvent({ kind: 'not-started', place: place.index, reason, againInMs })
    }
  }

  /** The pause before the next start; null: the group is lost. */
  #startLater(place: Place, reason: string): number | null {
    const { pauses } = place
    const againInMs = pauses.failed()
    // Without a frontend only the end of this process can tell others that something is wrong.
    if (this.#children.size === 0 && pauses.failures > FAILURES_ALONE_MAX) {
      this.#startNoMore()
      const count = `${pauses.failures} failures in a row`
      this.#lose(unavailable(`no frontend is left: ${count}; ${reason}`))
      return null
    }
    place.nextStart = this.#options.clock.after(againInMs, () => void this.#startAgain(place))
    return againInMs
  }
}

function unavailable(message: string): BatonError {
  return new BatonError('backend.worker_unavailable', message)
}

function tell(child: ClusterWorker, message: ParentMessage): void {
  if (child.isConnected()) child.send(message, () => undefined)
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
    child.once('exit', () => reject(unavailable('a frontend exited during its start')))
    tell(child, { kind: 'await-workers', workers, deadlineMs })
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
