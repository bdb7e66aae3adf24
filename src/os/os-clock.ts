/**
 * The operating system's clock, as pure rooms take it.
 */
import type { Clock, Timer } from '../base/index.ts'

/** Each request has two for as long as it runs: an object of one field, and no closure. */
class OsTimer implements Timer {
  readonly #timeout: NodeJS.Timeout

  constructor(timeout: NodeJS.Timeout) {
    this.#timeout = timeout
  }

  cancel(): void {
    clearTimeout(this.#timeout)
  }
}

export const osClock: Clock = {
  nowMs: () => performance.now(),
  epochMs: () => Date.now(),
  after: (delayMs: number, fire: () => void): Timer => new OsTimer(setTimeout(fire, delayMs)),
}
