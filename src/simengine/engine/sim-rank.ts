/**
 * Drives one scheduler in real time: one timer for the current step, however many requests it has.
 *
 * The timeline is independent of the timers: a step begins when the last one ended, not when its timer fired, so that
 * timers with a resolution of a millisecond do not stretch a step of 5.74 ms. After a long pause it is reset, but
 * never to before the last step's end, because a timer may also fire early.
 */
import type { Clock, Timer } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type { SimKvEvent } from '../blocks/block-content.ts'
import type { SchedulerConfig } from '../scheduler/scheduler-config.ts'
import type { BlockHasher, BlockReader } from '../scheduler/sequence-blocks.ts'
import { SimScheduler } from '../scheduler/sim-scheduler.ts'
import type { SimStep } from '../scheduler/sim-scheduler.ts'
import type { SimSequence, SimSubmit } from '../scheduler/sim-sequence.ts'
import type { StepAhead, StepRun } from '../scheduler/step-ahead.ts'

/** Receives the progress of a sequence. */
export interface SimOwner {
  /** The sequence has left the queue; called again after a preemption. */
  admitted?(): void
  /**
   * All tokens up to this count are available. `endsMs`: end times of the steps that produced them, if there were
   * several.
   */
  advanceTo(generatedTokens: number, endsMs?: Float64Array): void
  complete(): void
}

interface SimRankObserver {
  kvEvents(dpRank: number, events: readonly SimKvEvent[]): void
  load(report: LoadReport): void
}

/** Maximum number of consecutive steps without a timer (steps that take no time) before other work gets its turn. */
const STEPS_PER_TURN = 64
const LATE_MS_MAX = 20
/** Maximum number of steps with one timer; more would cost more to forecast than they save. */
const STEPS_AHEAD_MAX = 256

interface SimRankOptions<Owner> {
  readonly clock: Clock
  readonly config: SchedulerConfig
  readonly hasher: BlockHasher<Owner> | null
  readonly reader?: BlockReader<Owner> | null
  readonly ahead?: StepAhead | undefined
  readonly onStep?: ((step: SimStep<Owner>, dpRank: number) => void) | undefined
}

/** Minimum interval of signs of life, because an engine that is silent for long counts as stalled. */
const LIFE_SIGN_MS = 1000

/** Several steps with one timer. */
interface Run<Owner> {
  /** The scheduler's own object; it describes the current step. */
  readonly step: SimStep<Owner>
  readonly endsMs: Float64Array
  /** Index of the current step; earlier ones have ended. */
  at: number
  /** Index of the first step that has not been reported. */
  told: number
  /** Before this time no step begins that allocates or completes a block. */
  changesAtMs: number
}

export class SimRank<Owner extends SimOwner> implements StepRun {
  readonly dpRank: number
  readonly scheduler: SimScheduler<Owner>
  readonly #clock: Clock
  #observer: SimRankObserver | null = null
  #timer: Timer | null = null
  #isPumping = false
  /** The timer is for a wait, not for a step. */
  #isIdle = false
  #isClosed = false
  #timelineMs = -Infinity
  #lastEndMs = -Infinity

  readonly #ahead: StepAhead | null
  readonly #onStep: ((step: SimStep<Owner>, dpRank: number) => void) | undefined
  /** The current step and those forecast after it; null: one step per timer. */
  #run: Run<Owner> | null = null

  constructor(dpRank: number, options: SimRankOptions<Owner>) {
    const { clock, config, hasher, reader, ahead, onStep } = options
    this.#onStep = onStep
    this.dpRank = dpRank
    this.#clock = clock
    this.#ahead = ahead ?? null
    this.scheduler = new SimScheduler(config, hasher, dpRank, reader ?? null)
  }

  observe(observer: SimRankObserver): void {
    this.#observer = observer
  }

  submit(request: SimSubmit<Owner>): SimSequence<Owner> {
    this.#endRun()
    const sequence = this.scheduler.submit(request, this.#clock.nowMs())
    this.#wake()
    return sequence
  }

  cancel(sequence: SimSequence<Owner>): void {
    this.#endRun()
    this.scheduler.cancel(sequence)
    this.#wake()
  }

  held(): readonly SimKvEvent[] {
    this.settle(this.#clock.nowMs())
    return this.scheduler.pool.held()
  }

  clearCache(): void {
    this.#endRun()
    this.scheduler.clearCache()
    this.#report()
  }

  close(): void {
    this.#isClosed = true
    this.#leaveRun()
    this.#timer?.cancel()
    this.#timer = null
  }

  /** Step durations have changed: the forecast is invalid. */
  recast(): void {
    this.#endRun()
  }

  /** Reports everything that has ended by now. */
  flush(): void {
    const run = this.#run
    if (run === null) return
    this.settle(this.#clock.nowMs())
    reportEnded(run)
  }

  catchUp(nowMs: number): void {
    if (this.#run !== null && this.#run.changesAtMs <= nowMs) this.settle(nowMs)
  }

  settle(nowMs: number): void {
    const run = this.#run
    if (run === null) return
    const { endsMs, at } = run
    const last = endsMs.length - 1
    let next = at
    while (next < last && endsMs[next]! <= nowMs) next++
    if (next === at) return
    // Steps up to `next - 1` have ended, `next` is current.
    const step = this.scheduler.quietSteps(next - at, endsMs[at]!, endsMs[next]!)
    run.at = next
    run.changesAtMs = this.#changeAfter(endsMs, next)
    this.#lastEndMs = this.#timelineMs = step.endMs
    this.#onStep?.(step, this.dpRank)
    this.#publish(step)
  }

  /** Requests that arrive in the same turn of the event loop are in the same step. */
  #wake(): void {
    if (this.#isPumping || (this.#timer !== null && !this.#isIdle)) return
    // No sequence is computing: waiting for a transfer or copy must not delay new requests.
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
        // Idle: the next step begins when its request arrives.
        this.#timelineMs = -Infinity
        this.#report()
        this.#sleepUntilWake(nowMs)
        return
      }
      this.#lastEndMs = step.endMs
      this.#onStep?.(step, this.dpRank)
      this.#publish(step)
      if (step.endMs > nowMs) {
        this.#timelineMs = step.endMs
        if (!this.#runAhead(step)) this.#sleepOver(step)
        return
      }
      this.#deliver(step)
    }
    this.#sleep(0, null)
  }

  #sleepOver(step: SimStep<Owner>): void {
    this.#sleep(step.endMs - this.#clock.nowMs(), () => this.#deliver(step))
  }

  #runAhead(step: SimStep<Owner>): boolean {
    if (this.#ahead === null || step.completed.length > 0) return false
    // A first token is reported at once, because routers take it as the end of the prefill.
    if (step.emitted.some(({ generatedTokens }) => generatedTokens === 1)) return false
    const forecast = this.scheduler.forecast(STEPS_AHEAD_MAX)
    if (forecast === null) return false
    const { endsMs } = forecast
    const run = { step, endsMs, at: 0, told: 0, changesAtMs: this.#changeAfter(endsMs, 0) }
    this.#run = run
    this.#ahead.enter(this)
    this.#sleep(endsMs.at(-1)! - this.#clock.nowMs(), () => {
      this.settle(endsMs.at(-1)!)
      if (this.#run !== run) return
      this.#leaveRun()
      reportEnded(run)
      this.#deliver(step)
    })
    return true
  }

  /** With step `at` current: the start of the next step with an effect visible from outside. */
  #changeAfter(endsMs: Float64Array, at: number): number {
    const last = endsMs.length - 1
    if (at === last) return Infinity
    // The last step may end a sequence.
    const next = Math.min(at + this.scheduler.stepsToChange, last)
    return Math.min(endsMs[next - 1]!, endsMs[at]! + LIFE_SIGN_MS)
  }

  /** Ends the run after the current step; new requests join the step after it. */
  #endRun(): void {
    const run = this.#run
    if (run === null) return
    this.settle(this.#clock.nowMs())
    this.#leaveRun()
    reportEnded(run)
    this.#timer?.cancel()
    this.#timer = null
    this.#sleepOver(run.step)
  }

  #leaveRun(): void {
    if (this.#run === null) return
    this.#run = null
    this.#ahead?.leave(this)
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
    for (const sequence of step.admitted) sequence.owner.admitted?.()
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

/** Reports the tokens of the steps that have ended. The current step is computed already, but not reported yet. */
function reportEnded<Owner extends SimOwner>(run: Run<Owner>): void {
  const { step, endsMs, told, at } = run
  if (at === told) return
  run.told = at
  const ended = endsMs.subarray(told, at)
  for (const { owner, generatedTokens } of step.emitted) owner.advanceTo(generatedTokens - 1, ended)
}
