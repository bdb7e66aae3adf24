/**
 * The clock of one simulated process: the common time until the process dies; after that none of its timers fires.
 */
import type { Clock, Timer } from '../../base/index.ts'
import type { StepAhead, StepRun } from '../../simengine/index.ts'
import type { VirtualClock } from './virtual-clock.ts'

export class ProcessClock implements Clock, StepAhead {
  readonly #base: VirtualClock
  readonly #runs = new Set<StepRun>()
  #isDead = false

  constructor(base: VirtualClock) {
    this.#base = base
  }

  get isDead(): boolean {
    return this.#isDead
  }

  nowMs(): number {
    return this.#base.nowMs()
  }

  epochMs(): number {
    return this.#base.epochMs()
  }

  after(delayMs: number, fire: () => void): Timer {
    return this.#base.after(delayMs, () => {
      if (!this.#isDead) fire()
    })
  }

  enter(run: StepRun): void {
    if (this.#isDead) return
    this.#runs.add(run)
    this.#base.enter(run)
  }

  leave(run: StepRun): void {
    this.#runs.delete(run)
    this.#base.leave(run)
  }

  kill(): void {
    this.#isDead = true
    for (const run of this.#runs) this.leave(run)
  }
}
