/**
 * Decides when the requests of a trace are sent: at their times (open loop), or a fixed number at once (closed
 * loop). Requests that depend on others follow them after a delay.
 */
import type { Clock } from '../../base/index.ts'
import type { TraceDependency, TraceRequest } from '../trace/trace-request.ts'

interface LoadSourceOptions {
  readonly clock: Clock
  readonly trace: readonly TraceRequest[]
  /** Number of concurrent requests; null: at the times of the trace. */
  readonly concurrency: number | null
  readonly send: (index: number) => void
}

/** A request that waits for others. */
interface Follower {
  readonly index: number
  /** Number of them that have not happened yet. */
  left: number
  /** The earliest possible time, as far as known. */
  fromMs: number
}

interface Following {
  readonly follower: Follower
  readonly on: TraceDependency['on']
  readonly delayMs: number
}

export class LoadSource {
  readonly #options: LoadSourceOptions
  readonly #followers = new Map<number, Following[]>()
  /** Requests without dependencies, in order of time. */
  readonly #free: number[] = []
  /**
   * For each request the independent request at the start of its chain, and how many requests of the chain have not
   * ended.
   */
  readonly #roots: Int32Array
  readonly #kin: Int32Array
  #next = 0

  constructor(options: LoadSourceOptions) {
    this.#options = options
    const { trace } = options
    this.#roots = new Int32Array(trace.length)
    this.#kin = new Int32Array(trace.length)
    for (const [index, request] of trace.entries()) {
      const waitsFor = dependenciesOf(request)
      const root = waitsFor.length === 0 ? index : this.#roots[waitsFor[0]!.request]!
      this.#roots[index] = root
      this.#kin[root]! += 1
      if (waitsFor.length === 0) this.#free.push(index)
      else this.#follow(index, waitsFor)
    }
    this.#free.sort((a, b) => trace[a]!.atMs - trace[b]!.atMs)
  }

  start(): void {
    const { clock, concurrency } = this.#options
    if (concurrency === null) clock.after(0, () => this.#arrive())
    else clock.after(0, () => this.#fill(concurrency))
  }

  /** The request has ended, successfully or not. */
  ended(index: number): void {
    const { clock, concurrency } = this.#options
    const root = this.#roots[index]!
    this.#kin[root]! -= 1
    if (concurrency !== null && this.#kin[root] === 0) clock.after(0, () => this.#fill(1))
    this.#release(index, 'ended')
  }

  #follow(index: number, waitsFor: readonly TraceDependency[]): void {
    const { trace, concurrency } = this.#options
    const { waitsFor: isGraph, atMs } = trace[index]!
    // A turn follows the previous one whatever its time says; a request of a graph also has its own time.
    const fromMs = isGraph !== undefined && concurrency === null ? atMs : 0
    const follower = { index, left: waitsFor.length, fromMs }
    for (const { request, on, delayMs } of waitsFor) {
      const following = this.#followers.get(request) ?? []
      following.push({ follower, on, delayMs })
      this.#followers.set(request, following)
    }
  }

  #release(index: number, on: TraceDependency['on']): void {
    const { clock } = this.#options
    const nowMs = clock.nowMs()
    for (const { follower, on: wanted, delayMs } of this.#followers.get(index) ?? []) {
      if (wanted !== on) continue
      follower.left -= 1
      follower.fromMs = Math.max(follower.fromMs, nowMs + delayMs)
      if (follower.left === 0)
        clock.after(follower.fromMs - nowMs, () => this.#send(follower.index))
    }
  }

  #send(index: number): void {
    this.#options.send(index)
    if (this.#followers.has(index)) this.#release(index, 'sent')
  }

  /** Only the next arrival has a timer, because a trace may be long. */
  #arrive(): void {
    const { clock, trace } = this.#options
    for (;;) {
      const index = this.#free[this.#next]
      if (index === undefined) return
      const waitMs = trace[index]!.atMs - clock.nowMs()
      if (waitMs > 0) {
        clock.after(waitMs, () => this.#arrive())
        return
      }
      this.#next += 1
      this.#send(index)
    }
  }

  /** A session or a graph keeps its place until the last of its requests has ended. */
  #fill(count: number): void {
    for (let i = 0; i < count; i++) {
      const index = this.#free[this.#next]
      if (index === undefined) return
      this.#next += 1
      this.#send(index)
    }
  }
}

function dependenciesOf({
  after,
  delayMs = 0,
  waitsFor,
}: TraceRequest): readonly TraceDependency[] {
  if (waitsFor !== undefined) return waitsFor
  return after === undefined ? [] : [{ request: after, on: 'ended', delayMs }]
}
