/** A clock that only a test advances; timers fire in order of time. */
import type { Clock, Timer } from '../../src/base/index.ts'

export class ManualClock implements Clock {
  #nowMs = 0
  #timers: { atMs: number; fire: () => void }[] = []

  nowMs(): number {
    return this.#nowMs
  }

  epochMs(): number {
    return 1_700_000_000_000 + this.#nowMs
  }

  after(delayMs: number, fire: () => void): Timer {
    const timer = { atMs: this.#nowMs + delayMs, fire }
    this.#timers.push(timer)
    return {
      cancel: () => {
        this.#timers = this.#timers.filter((other) => other !== timer)
      },
    }
  }

  advance(ms: number): void {
    const untilMs = this.#nowMs + ms
    for (;;) {
      const due = this.#timers.filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)
      const next = due[0]
      if (next === undefined) break
      this.#timers = this.#timers.filter((other) => other !== next)
      this.#nowMs = Math.max(this.#nowMs, next.atMs)
      next.fire()
    }
    this.#nowMs = untilMs
  }

  get timerCount(): number {
    return this.#timers.length
  }
}
