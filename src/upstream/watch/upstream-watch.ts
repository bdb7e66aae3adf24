/**
 * Checks a server at intervals: whether it is still there and still the same, and its load.
 *
 * Only its health decides whether it is there. Load and identity are asked on routes for monitoring, which may be slow,
 * closed or broken while the server answers every request; then they are unknown.
 *
 * A single missed answer of a busy server does not count, nor does one while the server continues to answer
 * requests, or when nothing was asked because too much is in flight. After several consecutive misses the server
 * gets no new requests. Running ones are not ended: a server may compute for longer than it answers checks, and each
 * request has its own connection and deadlines, which are more reliable. A server counts as lost when it is silent
 * and has no running request.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import { fetchWhole } from '../client/fetch-json.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { Dialect } from '../dialects/dialect.ts'
import { isAccessRefusal } from '../dialects/upstream-error.ts'
import { LoadWatch } from './load-watch.ts'
import { changedNames } from './server-identity.ts'
import type { ServerIdentity } from './server-identity.ts'

interface UpstreamWatchOptions {
  readonly client: UpstreamClient
  readonly dialect: Pick<Dialect, 'load'>
  /** What the server reported about itself at the start, and the question for it now; absent or null: it does not tell. */
  readonly identity?: ServerIdentity | null
  readonly askIdentity?: (deadlineMs: number) => Promise<ServerIdentity | null>
  /** The LoRA adapters at the start, and what to do when the server has others. Absent: they are not used. */
  readonly adapters?: {
    readonly atStart: readonly string[]
    readonly onChange: (names: readonly string[]) => void
  }
  readonly clock: Clock
  readonly everyMs: number
  readonly onLoad: (report: LoadReport) => void
  /** Called for limitations, with a text for the operator. */
  readonly onNote?: (note: string) => void
  /**
   * Called with the reason when the server should get no new requests, and with null when it answers again;
   * alternating, starting with a reason.
   */
  readonly onUnavailable: (error: BatonError | null) => void
  /** Nothing is reported afterwards. */
  readonly onLost: (error: BatonError) => void
  /** Timeout of a check. */
  readonly deadlineMs?: number
}

const FAILURES_MAX = 3
const DEADLINE_MS = 5000
/** Checks between two questions for the server's identity. */
const IDENTITY_EVERY = 5

export class UpstreamWatch {
  readonly #options: UpstreamWatchOptions
  #timer: Timer | null = null
  #failures = 0
  #isUnavailable = false
  /** The server is there, and refuses Baton's credentials. */
  #refusal: BatonError | null = null
  /** The client's counter at the last question for the identity. */
  #refusalsSeen = 0
  /** The client's counter at the end of the last check. */
  #heard = 0
  #isClosed = false
  #looks = 0
  readonly #load: LoadWatch
  /** The LoRA adapters that were reported last, in order. */
  #adapters: string

  constructor(options: UpstreamWatchOptions) {
    this.#options = options
    this.#adapters = listed(options.adapters?.atStart ?? [])
    this.#load = new LoadWatch(options)
  }

  /** The last loads that the server reported. */
  get loads(): readonly LoadReport[] {
    return this.#load.reports
  }

  start(): void {
    this.#arm()
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  #arm(): void {
    if (this.#isClosed) return
    this.#timer = this.#options.clock.after(this.#options.everyMs, () => void this.#look())
  }

  async #look(): Promise<void> {
    const { client, deadlineMs = DEADLINE_MS } = this.#options
    try {
      const isLoadKnown = await this.#load.ask(deadlineMs)
      if (!isLoadKnown) await this.#askHealth(deadlineMs)
      const replaced = await this.#isReplaced(deadlineMs)
      if (this.#isClosed) return
      if (replaced !== null) return this.#lose(replaced)
      this.#answered()
      this.#load.tell()
    } catch (thrown) {
      if (this.#isClosed) return
      const error = BatonError.from(thrown)
      if (this.#isAlive(error)) this.#answered()
      else this.#failed(error)
    }
    this.#heard = client.heard
    this.#arm()
  }

  #answered(): void {
    this.#failures = 0
    const isUnavailable = this.#refusal !== null
    if (isUnavailable === this.#isUnavailable) return
    this.#isUnavailable = isUnavailable
    this.#options.onUnavailable(this.#refusal)
  }

  #failed(error: BatonError): void {
    this.#failures += 1
    if (this.#failures < FAILURES_MAX) return
    const { client, onUnavailable } = this.#options
    if (client.runs === 0) {
      this.#lose(error)
    } else if (!this.#isUnavailable) {
      this.#isUnavailable = true
      onUnavailable(error)
    }
  }

  #lose(error: BatonError): void {
    this.close()
    this.#options.onLost(error)
  }

  /**
   * After a missed answer, after a request was refused, and from time to time, because a server may be replaced between
   * two checks.
   */
  async #isReplaced(deadlineMs: number): Promise<BatonError | null> {
    const { client, identity, askIdentity } = this.#options
    const isRefused = this.#refusal !== null || client.accessRefusals !== this.#refusalsSeen
    const isDue = this.#failures > 0 || ++this.#looks % IDENTITY_EVERY === 0 || isRefused
    // A server that never told its models may refuse to tell them.
    if (!isDue || identity === undefined || identity === null) return null
    this.#refusalsSeen = client.accessRefusals
    try {
      const now = (await askIdentity?.(deadlineMs)) ?? null
      this.#refusal = null
      const changed = now === null ? [] : changedNames(identity, now)
      if (changed.length === 0) {
        if (now !== null && !this.#isClosed) this.#tellAdapters(now.adapters)
        return null
      }
      return new BatonError(
        'backend.worker_unavailable',
        `another server answers at this address: it differs in ${changed.join(', ')}`,
      )
    } catch (thrown) {
      const error = BatonError.from(thrown)
      // Otherwise it does not answer this now.
      if (isAccessRefusal(error.data['upstreamStatus'])) this.#refusal = error
      return null
    }
  }

  #tellAdapters(names: readonly string[]): void {
    const { adapters, onNote } = this.#options
    const list = listed(names)
    if (adapters === undefined || list === this.#adapters) return
    this.#adapters = list
    onNote?.(
      names.length === 0 ? 'serves no LoRA adapter now' : `serves these LoRA adapters now: ${list}`,
    )
    adapters.onChange(names)
  }

  /** True when the server is alive although it has not answered. */
  #isAlive({ code }: BatonError): boolean {
    const { heard } = this.#options.client
    return heard !== this.#heard || code === 'capacity.worker_overloaded'
  }

  /** Any answer below 500 counts. */
  async #askHealth(deadlineMs: number): Promise<void> {
    const request = { method: 'GET', path: '/health' }
    const { status } = await fetchWhole(this.#options.client, request, { deadlineMs })
    if (status < 500) return
    throw new BatonError('backend.worker_unavailable', `the engine answers ${status} to /health`)
  }
}

function listed(names: readonly string[]): string {
  return names.toSorted().join(', ')
}
