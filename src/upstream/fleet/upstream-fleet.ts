/**
 * Runs one worker for every upstream of a changing list: started when the server answers, ended when it is lost or
 * removed from the list, and retried as long as it is listed.
 *
 * A removed upstream gets no new requests and ends after its running ones, so that a server taken out of DNS
 * finishes its work. Listed again before that, it stays.
 *
 * Owns: which upstreams are up. Does not own: what a worker is (`host`), and where the list comes from.
 */
import { BatonError } from '../../base/index.ts'
import { upstreamKey } from './upstream-spec.ts'
import type { UpstreamSpec } from './upstream-spec.ts'

export interface UpstreamWorker {
  /** No new requests; running ones continue. Never rejects: discovery is told until that succeeds. */
  leave(): Promise<void>
  /** Accepts requests again. Never rejects, as `leave`. */
  rejoin(): Promise<void>
  /** Resolves when nothing is running there. */
  idle(): Promise<void>
  /** Stops at once; idempotent. */
  stop(): Promise<void>
}

export interface UpstreamFleetOptions {
  /** Rejects when the server does not answer (yet). `onLost` may be called once after it has resolved. */
  readonly start: (
    spec: UpstreamSpec,
    onLost: (error: BatonError) => void,
  ) => Promise<UpstreamWorker>
  readonly onEvent: (event: UpstreamEvent) => void
  readonly retryMs: number
}

export type UpstreamEvent =
  | { readonly kind: 'up'; readonly spec: UpstreamSpec }
  | { readonly kind: 'not-up'; readonly spec: UpstreamSpec; readonly error: BatonError }
  | { readonly kind: 'lost'; readonly spec: UpstreamSpec; readonly error: BatonError }
  | { readonly kind: 'removed'; readonly spec: UpstreamSpec }

export class UpstreamFleet {
  readonly #options: UpstreamFleetOptions
  readonly #lives = new Map<string, UpstreamLife>()
  #isClosed = false

  constructor(options: UpstreamFleetOptions) {
    this.#options = options
  }

  /** How many are listed, and how many of them serve. */
  get counts(): { readonly named: number; readonly up: number } {
    const lives = [...this.#lives.values()].filter(({ isWanted }) => isWanted)
    return { named: lives.length, up: lives.filter(({ isUp }) => isUp).length }
  }

  setList(list: readonly UpstreamSpec[]): void {
    if (this.#isClosed) return
    const wanted = new Map(list.map((spec) => [upstreamKey(spec), spec]))
    for (const [key, life] of this.#lives) {
      if (!wanted.has(key) && life.isWanted) void this.#leave(key, life)
    }
    for (const [key, spec] of wanted) {
      const life = this.#lives.get(key)
      if (life === undefined) this.#lives.set(key, new UpstreamLife(spec, this.#options))
      else life.keep()
    }
  }

  async #leave(key: string, life: UpstreamLife): Promise<void> {
    const hasEnded = await life.leave()
    if (!hasEnded) return
    this.#lives.delete(key)
    this.#options.onEvent({ kind: 'removed', spec: life.spec })
  }

  /** Resolves when every upstream listed now has been tried once. */
  async tried(): Promise<void> {
    await Promise.all([...this.#lives.values()].map((life) => life.tried))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#lives.values()].map((life) => life.end()))
  }
}

class UpstreamLife {
  readonly spec: UpstreamSpec
  readonly tried: Promise<void>
  readonly #options: UpstreamFleetOptions
  #worker: UpstreamWorker | null = null
  #starting: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  #isWanted = true
  #isLeaving = false
  /** The last reported reason why it is not up; null: it is up, or was not tried. */
  #told: string | null = null

  constructor(spec: UpstreamSpec, options: UpstreamFleetOptions) {
    this.spec = spec
    this.#options = options
    this.tried = this.#try()
  }

  get isUp(): boolean {
    return this.#worker !== null
  }

  get isWanted(): boolean {
    return this.#isWanted
  }

  /** Ends at once. */
  async end(): Promise<void> {
    this.#unwanted()
    await this.#starting
    await this.#worker?.stop()
    this.#worker = null
  }

  /** Ends after the running requests. False: it was listed again, or an earlier call ends it. */
  async leave(): Promise<boolean> {
    this.#unwanted()
    if (this.#isLeaving) {
      await this.#worker?.leave()
      return false
    }
    this.#isLeaving = true
    await this.#starting
    await this.#worker?.leave()
    await this.#worker?.idle()
    if (!this.#isWanted) {
      await this.#worker?.stop().catch(() => undefined)
      this.#worker = null
    }
    this.#isLeaving = false
    if (!this.#isWanted) return true
    // It was listed again while it was being stopped.
    if (this.#worker === null) void this.#try()
    return false
  }

  /** Has no effect if it was listed all the time. */
  keep(): void {
    if (this.#isWanted) return
    this.#isWanted = true
    void this.#worker?.rejoin()
  }

  #unwanted(): void {
    this.#isWanted = false
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #try(): Promise<void> {
    this.#starting = this.#start()
    return this.#starting
  }

  async #start(): Promise<void> {
    const { spec } = this
    const { onEvent, start } = this.#options
    try {
      let isLost = false
      const worker = await start(spec, (error) => {
        isLost = true
        void this.#lost(error)
      })
      this.#worker = worker
      if (isLost) return
      this.#told = null
      onEvent({ kind: 'up', spec })
    } catch (thrown) {
      const error = BatonError.from(thrown)
      // Reported once per reason, not at every attempt.
      if (this.#told !== error.message) onEvent({ kind: 'not-up', spec, error })
      this.#told = error.message
      this.#again()
    }
  }

  async #lost(error: BatonError): Promise<void> {
    await this.#starting
    const worker = this.#worker
    this.#worker = null
    if (this.#isWanted) {
      this.#told = error.message
      this.#options.onEvent({ kind: 'lost', spec: this.spec, error })
    }
    await worker?.stop().catch(() => undefined)
    this.#again()
  }

  #again(): void {
    if (!this.#isWanted || this.#isLeaving) return
    this.#timer = setTimeout(() => void this.#try(), this.#options.retryMs)
  }
}
