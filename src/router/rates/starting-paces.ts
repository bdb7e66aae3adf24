/**
 * The speed that a pool's ranks report themselves (`EngineConfig.pace`): the rates of the median rank, and each
 * rank's factor relative to it. A rank that reports nothing is assumed to be the median.
 */
import type { EnginePace } from '../../request/index.ts'

/** Reference prompt and step by which ranks are compared. */
const PROMPT_TOKENS = 1000
const STEP_REQUESTS = 8
const STEP_CONTEXT_TOKENS = 8000
/** The median moves as ranks join and leave; if by less than this (natural log.), the ranks are not compared again. */
const MOVED_LOG = 0.01

interface ReportedPace {
  readonly pace: EnginePace
  readonly promptLog: number
  readonly stepLog: number
}

export class StartingPaces {
  readonly #reports = new Map<number, ReportedPace>()
  #promptLogs = 0
  #stepLogs = 0
  /** The median at the last comparison. */
  #hasMiddle = false
  #promptMiddle = 0
  #stepMiddle = 0

  get count(): number {
    return this.#reports.size
  }

  /**
   * Sets (or with null removes) the speed of the rank in this slot. `compare` is called with the factors of ranks
   * relative to the median, as logarithms. `isLearned`: rates have been measured, and the median stays what it was
   * then.
   */
  set(
    slot: number,
    pace: EnginePace | null,
    isLearned: boolean,
    compare: (slot: number, promptLog: number, stepLog: number) => void,
  ): void {
    this.#forget(slot)
    if (pace === null) return
    const report = reportOf(pace)
    this.#reports.set(slot, report)
    this.#promptLogs += report.promptLog
    this.#stepLogs += report.stepLog
    const isMoved = (!isLearned || !this.#hasMiddle) && this.#moveMiddle()
    for (const [at, { promptLog, stepLog }] of isMoved ? this.#reports : [[slot, report] as const])
      compare(at, promptLog - this.#promptMiddle, stepLog - this.#stepMiddle)
  }

  #moveMiddle(): boolean {
    const { size } = this.#reports
    const [prompt, step] = [this.#promptLogs / size, this.#stepLogs / size]
    const distances = [prompt - this.#promptMiddle, step - this.#stepMiddle]
    if (this.#hasMiddle && distances.every((log) => Math.abs(log) < MOVED_LOG)) return false
    this.#hasMiddle = true
    this.#promptMiddle = prompt
    this.#stepMiddle = step
    return true
  }

  /** The mean of all reported rates, scaled to the speed of the median rank. */
  middle(): EnginePace | null {
    const { size } = this.#reports
    if (size === 0) return null
    const sum = {
      promptMs: 0,
      promptTokenMs: 0,
      stepMs: 0,
      stepRequestMs: 0,
      stepContextTokenMs: 0,
    }
    for (const { pace, promptLog, stepLog } of this.#reports.values()) {
      const [prompt, step] = [
        Math.exp(this.#promptMiddle - promptLog) / size,
        Math.exp(this.#stepMiddle - stepLog) / size,
      ]
      sum.promptMs += prompt * pace.promptMs
      sum.promptTokenMs += prompt * pace.promptTokenMs
      sum.stepMs += step * pace.stepMs
      sum.stepRequestMs += step * pace.stepRequestMs
      sum.stepContextTokenMs += step * pace.stepContextTokenMs
    }
    return sum
  }

  #forget(slot: number): void {
    const report = this.#reports.get(slot)
    if (report === undefined) return
    this.#reports.delete(slot)
    this.#promptLogs -= report.promptLog
    this.#stepLogs -= report.stepLog
  }
}

function reportOf(pace: EnginePace): ReportedPace {
  const { promptMs, promptTokenMs, stepMs, stepRequestMs, stepContextTokenMs } = pace
  return {
    pace,
    promptLog: Math.log(promptMs + PROMPT_TOKENS * promptTokenMs),
    stepLog: Math.log(
      stepMs + STEP_REQUESTS * stepRequestMs + STEP_CONTEXT_TOKENS * stepContextTokenMs,
    ),
  }
}
