/**
 * How long to wait before a process that is not running is started again.
 *
 * The first start after a time of service is at once, because most faults do not come back. Further ones wait longer and
 * longer, so that a process that cannot start costs almost nothing, and it is never given up, because a fault may end by
 * itself: a disk that was full, a GPU that was in use.
 */
import type { Clock } from '../../base/index.ts'

const FIRST_PAUSE_MS = 1_000
const PAUSE_MS_MAX = 60_000
/** A process that has served this long is not in a crash loop. */
const SERVED_MS = 10_000

export class RestartPauses {
  readonly #clock: Clock
  #failures = 0
  #servesSinceMs: number | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The number of deaths and failed starts in a row, without a time of service between them. */
  get failures(): number {
    return this.#failures
  }

  /** The process serves. */
  served(): void {
    this.#servesSinceMs = this.#clock.nowMs()
  }

  /** The process has died or could not be started; returns the pause in ms before the next start. */
  failed(): number {
    const sinceMs = this.#servesSinceMs
    if (sinceMs !== null && this.#clock.nowMs() - sinceMs >= SERVED_MS) this.#failures = 0
    this.#servesSinceMs = null
    this.#failures += 1
    return this.#failures === 1
      ? 0
      : Math.min(PAUSE_MS_MAX, FIRST_PAUSE_MS * 2 ** (this.#failures - 2))
  }
}
