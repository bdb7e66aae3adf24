/**
 * Checks a server at intervals: its load, and whether it is still there.
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

interface UpstreamWatchOptions {
  readonly client: UpstreamClient
  readonly dialect: Pick<Dialect, 'load'>
  readonly clock: Clock
  readonly everyMs: number
  readonly onLoad: (report: LoadReport) => void
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

export class UpstreamWatch {
  readonly #options: UpstreamWatchOptions
  #timer: Timer | null = null
  #failures = 0
  #isUnavailable = false
  /** The client's counter at the end of the last check. */
  #heard = 0
  #isClosed = false
  #loads: readonly LoadReport[] = []

  constructor(options: UpstreamWatchOptions) {
    this.#options = options
  }

  /** The last loads that the server reported. */
  get loads(): readonly LoadReport[] {
    return this.#loads
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
    const { client, dialect, onLoad, deadlineMs = DEADLINE_MS } = this.#options
    try {
      const loads = (await dialect.load?.(client, deadlineMs)) ?? null
      if (loads === null) await this.#askHealth(deadlineMs)
      if (this.#isClosed) return
      this.#answered()
      this.#loads = loads ?? []
      for (const load of this.#loads) onLoad(load)
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
    if (!this.#isUnavailable) return
    this.#isUnavailable = false
    this.#options.onUnavailable(null)
  }

  #failed(error: BatonError): void {
    this.#failures += 1
    if (this.#failures < FAILURES_MAX) return
    const { client, onLost, onUnavailable } = this.#options
    if (client.runs === 0) {
      this.close()
      onLost(error)
    } else if (!this.#isUnavailable) {
      this.#isUnavailable = true
      onUnavailable(error)
    }
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
