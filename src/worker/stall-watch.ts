/**
 * Detects an engine that has requests but shows no sign of life.
 *
 * A single request may wait long for others, so the engine as a whole is watched: any item of any request and any
 * load report is a sign of life. One timer per worker; no cost per token.
 */
import type { Clock, Timer } from '../base/index.ts'

const CHECKS_PER_TIMEOUT = 4

interface StallWatchOptions {
  readonly clock: Clock
  readonly stallTimeoutMs: number
  /** A counter that increases with any activity of the engine. */
  readonly progress: () => number
  /** There are requests; without any the watch sleeps until `wake`. */
  readonly isBusy: () => boolean
  /** The engine is expected to act: not all requests are waiting for their reader, or for KV of another worker. */
  readonly isEngineDue: () => boolean
  readonly onStalled: (stalledMs: number) => void
}

export class StallWatch {
  readonly #options: StallWatchOptions
  #timer: Timer | null = null
  #progressSeen = 0
  #stillMs = 0
  #isStalled = false

  constructor(options: StallWatchOptions) {
    this.#options = options
  }

  get isStalled(): boolean {
    return this.#isStalled
  }

  /** Called when a request arrives; an idle worker has no timer. */
  wake(): void {
    if (this.#timer !== null || this.#options.stallTimeoutMs === Infinity) return
    this.#progressSeen = this.#options.progress()
    this.#stillMs = 0
    this.#arm()
  }

  close(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  #arm(): void {
    const checkMs = this.#options.stallTimeoutMs / CHECKS_PER_TIMEOUT
    this.#timer = this.#options.clock.after(checkMs, () => this.#check(checkMs))
  }

  #check(elapsedMs: number): void {
    this.#timer = null
    const progress = this.#options.progress()
    if (progress !== this.#progressSeen) this.#isStalled = false
    const isStill = progress === this.#progressSeen && this.#options.isEngineDue()
    this.#stillMs = isStill ? this.#stillMs + elapsedMs : 0
    this.#progressSeen = progress
    if (!this.#options.isBusy()) return
    this.#arm()
    if (this.#stillMs < this.#options.stallTimeoutMs || this.#isStalled) return
    this.#isStalled = true
    this.#options.onStalled(this.#stillMs)
  }
}
