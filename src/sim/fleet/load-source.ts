/**
 * When the requests of a trace are sent: at their times (open loop), or so many at once (closed loop). A turn that
 * depends on another one follows it after its delay.
 */
import type { Clock } from '../../base/index.ts'
import type { TraceRequest } from '../trace/trace-request.ts'

interface LoadSourceOptions {
  readonly clock: Clock
  readonly trace: readonly TraceRequest[]
  /** Requests under way at once; null: at the times of the trace. */
  readonly concurrency: number | null
  readonly send: (index: number) => void
}

export class LoadSource {
  readonly #options: LoadSourceOptions
  readonly #followers = new Map<number, number[]>()
  /** Those that wait for no other one, in the order of their times. */
  readonly #free: number[]
  #next = 0

  constructor(options: LoadSourceOptions) {
    this.#options = options
    const { trace } = options
    this.#free = []
    for (const [index, { after }] of trace.entries()) {
      if (after === undefined) this.#free.push(index)
      else this.#followers.set(after, [...(this.#followers.get(after) ?? []), index])
    }
    this.#free.sort((a, b) => trace[a]!.atMs - trace[b]!.atMs)
  }

  start(): void {
    const { clock, concurrency } = this.#options
    if (concurrency === null) clock.after(0, () => this.#arrive())
    else clock.after(0, () => this.#fill(concurrency))
  }

  /** The request has ended, well or not. */
  ended(index: number): void {
    const { clock, trace, concurrency, send } = this.#options
    const followers = this.#followers.get(index)
    if (followers !== undefined) {
      for (const follower of followers)
        clock.after(trace[follower]!.delayMs ?? 0, () => send(follower))
    } else if (concurrency !== null) clock.after(0, () => this.#fill(1))
  }

  /** Only the next arrival has a timer: a trace may be long. */
  #arrive(): void {
    const { clock, trace, send } = this.#options
    for (;;) {
      const index = this.#free[this.#next]
      if (index === undefined) return
      const waitMs = trace[index]!.atMs - clock.nowMs()
      if (waitMs > 0) {
        clock.after(waitMs, () => this.#arrive())
        return
      }
      this.#next += 1
      send(index)
    }
  }

  /** A session holds its place until its last turn has ended. */
  #fill(count: number): void {
    for (let i = 0; i < count; i++) {
      const index = this.#free[this.#next]
      if (index === undefined) return
      this.#next += 1
      this.#options.send(index)
    }
  }
}
