/**
 * The live driver of one scheduler: one timer for the step under way, however many requests are in it.
 *
 * The timeline is kept apart from the timers: a step begins where the last one ended, not where its timer happened to
 * fire, so that a timer of whole milliseconds does not stretch a step of 5.74 ms. After a long pause it starts anew, but
 * never before the last step's end: a timer of whole milliseconds also fires early.
 */
import type { Clock, Timer } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type { SimKvEvent } from './block-content.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import type { BlockHasher, BlockReader } from './sequence-blocks.ts'
import { SimScheduler } from './sim-scheduler.ts'
import type { SimStep } from './sim-scheduler.ts'
import type { SimSequence, SimSubmit } from './sim-sequence.ts'

/** Where a sequence's progress goes. */
export interface SimOwner {
  /** All tokens up to this count are ready. */
  advanceTo(generatedTokens: number): void
  complete(): void
}

interface SimRankObserver {
  kvEvents(dpRank: number, events: readonly SimKvEvent[]): void
  load(report: LoadReport): void
}

/** Steps that may follow each other without a timer (nothing takes time) before others get their turn. */
const STEPS_PER_TURN = 64
const LATE_MS_MAX = 20

export class SimRank<Owner extends SimOwner> {
  readonly dpRank: number
  readonly scheduler: SimScheduler<Owner>
  readonly #clock: Clock
  #observer: SimRankObserver | null = null
  #timer: Timer | null = null
  #isPumping = false
  /** The timer is that of a wait, not of a step. */
  #isIdle = false
  #isClosed = false
  #timelineMs = -Infinity
  #lastEndMs = -Infinity

  constructor(
    dpRank: number,
    clock: Clock,
    config: SchedulerConfig,
    hasher: BlockHasher<Owner> | null,
    reader: BlockReader<Owner> | null = null,
  ) {
    this.dpRank = dpRank
    this.#clock = clock
    this.scheduler = new SimScheduler(config, hasher, dpRank, reader)
  }

  observe(observer: SimRankObserver): void {
    this.#observer = observer
  }

  submit(request: SimSubmit<Owner>): SimSequence<Owner> {
    const sequence = this.scheduler.submit(request, this.#clock.nowMs())
    this.#wake()
    return sequence
  }

  cancel(sequence: SimSequence<Owner>): void {
    this.scheduler.cancel(sequence)
    this.#wake()
  }

  clearCache(): void {
    this.scheduler.clearCache()
    this.#report()
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#timer = null
  }

  /** Requests that come in the same turn are in the same step. */
  #wake(): void {
    if (this.#isPumping || (this.#timer !== null && !this.#isIdle)) return
    // Nobody computes: what waits for a transfer or a copy must not hold up what comes now.
    this.#timer?.cancel()
    this.#timer = null
    this.#isPumping = true
    void Promise.resolve().then(() => {
      this.#isPumping = false
      this.#pump()
    })
  }

  #pump(): void {
    if (this.#isClosed || this.#timer !== null) return
    for (let turn = 0; turn < STEPS_PER_TURN; turn++) {
      const nowMs = this.#startOfStep()
      const step = this.scheduler.step(nowMs)
      if (step === null) {
        // Idle: what comes next begins when it comes.
        this.#timelineMs = -Infinity
        this.#report()
        this.#sleepUntilWake(nowMs)
        return
      }
      this.#lastEndMs = step.endMs
      this.#publish(step)
      if (step.endMs > nowMs) {
        this.#timelineMs = step.endMs
        this.#sleep(step.endMs - this.#clock.nowMs(), () => this.#deliver(step))
        return
      }
      this.#deliver(step)
    }
    this.#sleep(0, null)
  }

  #startOfStep(): number {
    const nowMs = this.#clock.nowMs()
    const isLate = nowMs - this.#timelineMs > LATE_MS_MAX
    const startMs = isLate ? nowMs : Math.max(this.#timelineMs, nowMs - LATE_MS_MAX)
    return Math.max(startMs, this.#lastEndMs)
  }

  #sleepUntilWake(nowMs: number): void {
    const wakeMs = this.scheduler.nextWakeMs(nowMs)
    if (wakeMs === null) return
    this.#sleep(wakeMs - this.#clock.nowMs(), null)
    this.#isIdle = true
  }

  #sleep(delayMs: number, then: (() => void) | null): void {
    this.#isIdle = false
    this.#timer = this.#clock.after(Math.max(0, delayMs), () => {
      this.#timer = null
      then?.()
      this.#pump()
    })
  }

  #deliver(step: SimStep<Owner>): void {
    for (const sequence of step.emitted) sequence.owner.advanceTo(sequence.generatedTokens)
    for (const sequence of step.completed) sequence.owner.complete()
  }

  #publish(step: SimStep<Owner>): void {
    if (this.#observer === null) return
    if (step.kvEvents.length > 0) this.#observer.kvEvents(this.dpRank, step.kvEvents)
    this.#observer.load(this.scheduler.load(this.dpRank))
  }

  #report(): void {
    if (this.#observer === null) return
    const events = this.scheduler.takeKvEvents()
    if (events.length > 0) this.#observer.kvEvents(this.dpRank, events)
    this.#observer.load(this.scheduler.load(this.dpRank))
  }
}
