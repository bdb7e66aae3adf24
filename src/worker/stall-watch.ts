/**
 * Detects an engine that has requests but shows no sign of life.
 *
 * A single request may wait long for others, so the engine as a whole is watched. Only what the engine itself does is
 * a sign: a request that its client gave up is none, or a silent engine would look alive for as long as clients come
 * and go. The time in which requests waited for the engine adds up until there is a sign, also over pauses between
 * requests. One timer per worker; a token costs one addition.
 */
import type { Clock, Timer } from '../base/index.ts'

const CHECKS_PER_TIMEOUT = 4

interface StallWatchOptions {
  readonly clock: Clock
  readonly stallTimeoutMs: number
  readonly onStalled: (silentMs: number) => void
}

export class StallWatch {
  readonly #options: StallWatchOptions
  readonly #checkMs: number
  #timer: Timer | null = null
  #signs = 0
  #signsSeen = 0
  /** Requests that wait for the engine, not for their reader or for KV of another worker. */
  #due = 0
  #countedMs = 0
  #silentMs = 0
  #isStalled = false
  #isClosed = false

  constructor(options: StallWatchOptions) {
    this.#options = options
    this.#checkMs = options.stallTimeoutMs / CHECKS_PER_TIMEOUT
  }

  /** True from the end of the timeout until the next sign. */
  get isStalled(): boolean {
    return this.#isStalled && this.#signs === this.#signsSeen
  }

  /** The engine did something on its own account. */
  sign(): void {
    this.#signs++
  }

  /** One more request waits for the engine. */
  enter(): void {
    if (this.#due++ > 0) return
    this.#countedMs = this.#options.clock.nowMs()
    if (this.#timer === null) this.#arm()
  }

  leave(): void {
    if (this.#due === 1) this.#count()
    this.#due--
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#timer = null
  }

  #arm(): void {
    if (this.#isClosed || this.#checkMs === Infinity) return
    this.#timer = this.#options.clock.after(this.#checkMs, () => this.#check())
  }

  /** At most the time between two checks, because a suspended process does not see its engine. */
  #count(): void {
    const nowMs = this.#options.clock.nowMs()
    this.#silentMs += Math.min(nowMs - this.#countedMs, this.#checkMs)
    this.#countedMs = nowMs
  }

  #check(): void {
    this.#timer = null
    if (this.#due > 0) {
      this.#count()
      this.#arm()
    }
    if (this.#signs !== this.#signsSeen) {
      this.#signsSeen = this.#signs
      this.#silentMs = 0
      this.#isStalled = false
    }
    if (this.#silentMs < this.#options.stallTimeoutMs) return
    const silentMs = Math.round(this.#silentMs)
    this.#silentMs = 0
    this.#isStalled = true
    this.#options.onStalled(silentMs)
  }
}
