/**
 * The live driver of one scheduler: one timer for the step under way, however many requests are in it.
 *
 * The timeline is kept apart from the timers: a step begins where the last one ended, not where its timer happened to
 * fire, so that a timer of whole milliseconds does not stretch a step of 5.74 ms. After a long pause it starts anew, but
 * never before the last step's end: a timer of whole milliseconds also fires early.
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

/** Where a sequence's progress goes. */
export interface SimOwner {
  /** It left the queue; again when it was preempted. */
  admitted?(): void
  /** All tokens up to this count are ready. `endsMs`: the ends of the steps that brought them, when there were several. */
  advanceTo(generatedTokens: number, endsMs?: Float64Array): void
  complete(): void
}

interface SimRankObserver {
  kvEvents(dpRank: number, events: readonly SimKvEvent[]): void
  load(report: LoadReport): void
}

/** Steps that may follow each other without a timer (nothing takes time) before others get their turn. */
const STEPS_PER_TURN = 64
const LATE_MS_MAX = 20
/** A run of steps with one timer; behind its middle the forecast costs more than it saves. */
const STEPS_AHEAD_MAX = 256

export interface SimRankOptions<Owner> {
  readonly clock: Clock
  readonly config: SchedulerConfig
  readonly hasher: BlockHasher<Owner> | null
  readonly reader?: BlockReader<Owner> | null
  readonly ahead?: StepAhead | undefined
  readonly onStep?: ((step: SimStep<Owner>, dpRank: number) => void) | undefined
}

/** An engine that says nothing for long is taken for stalled: it gives a sign of life so often, if anybody looks. */
const LIFE_SIGN_MS = 1000

/** Steps with one timer. */
interface Run<Owner> {
  /** The scheduler's own: what it says is of the step under way. */
  readonly step: SimStep<Owner>
  readonly endsMs: Float64Array
  /** The step under way; those before have ended. */
  at: number
  /** Those before have been told. */
  told: number
  /** Before this moment no step begins that takes or completes a block. */
  changesAtMs: number
}

export class SimRank<Owner extends SimOwner> implements StepRun {
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

  readonly #ahead: StepAhead | null
  readonly #onStep: ((step: SimStep<Owner>, dpRank: number) => void) | undefined
  /** The step under way and those forecast behind it; null: one step, one timer. */
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

  /** How long steps take has changed: what was forecast does not hold. */
  recast(): void {
    this.#endRun()
  }

  /** What has ended by now is reported now. */
  flush(): void {
    const run = this.#run
    if (run === null) return
    this.settle(this.#clock.nowMs())
    tellEnded(run)
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
    // Those up to `next - 1` have ended, `next` is under way.
    const step = this.scheduler.quietSteps(next - at, endsMs[at]!, endsMs[next]!)
    run.at = next
    run.changesAtMs = this.#changeAfter(endsMs, next)
    this.#lastEndMs = this.#timelineMs = step.endMs
    this.#onStep?.(step, this.dpRank)
    this.#publish(step)
  }

  /** Requests that come in the same turn are in the same step. */
  #wake(): void {
    if (this.#isPumping || (this.#timer !== null && !this.#isIdle)) return
    // No sequence computes: what waits for a transfer or a copy must not hold up what comes now.
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
    // A first token is reported when it is there: routers count a prompt as computed from then on.
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
      tellEnded(run)
      this.#deliver(step)
    })
    return true
  }

  /** With step `at` under way: when the next one begins (at the end of the one before) that others can see something of. */
  #changeAfter(endsMs: Float64Array, at: number): number {
    const last = endsMs.length - 1
    if (at === last) return Infinity
    // The last one may be the last of a sequence.
    const next = Math.min(at + this.scheduler.stepsToChange, last)
    return Math.min(endsMs[next - 1]!, endsMs[at]! + LIFE_SIGN_MS)
  }

  /** The step under way is the last one of the run; what comes now is in the step behind it. */
  #endRun(): void {
    const run = this.#run
    if (run === null) return
    this.settle(this.#clock.nowMs())
    this.#leaveRun()
    tellEnded(run)
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

/** The tokens of the steps that have ended. The step under way has been computed already: it is not told yet. */
function tellEnded<Owner extends SimOwner>(run: Run<Owner>): void {
  const { step, endsMs, told, at } = run
  if (at === told) return
  run.told = at
  const ended = endsMs.subarray(told, at)
  for (const { owner, generatedTokens } of step.emitted) owner.advanceTo(generatedTokens - 1, ended)
}
