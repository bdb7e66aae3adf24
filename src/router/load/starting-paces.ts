/**
 * What a pool's ranks say of their own pace (`EngineConfig.pace`): the line of a rank in the middle, and how many times
 * longer than it each of them takes. Who says nothing is taken for one in the middle.
 */
import type { EnginePace } from '../../request/index.ts'

/** A prompt and a step by which ranks are compared. */
const PROMPT_TOKENS = 1000
const STEP_REQUESTS = 8
const STEP_CONTEXT_TOKENS = 8000
/** The middle moves as ranks come and go: by less than this (a logarithm) they are not compared anew. */
const MOVED_LOG = 0.01

interface Told {
  readonly pace: EnginePace
  readonly promptLog: number
  readonly stepLog: number
}

export class StartingPaces {
  readonly #told = new Map<number, Told>()
  #promptLogs = 0
  #stepLogs = 0
  /** As of when all were compared. */
  #hasMiddle = false
  #promptMiddle = 0
  #stepMiddle = 0

  get count(): number {
    return this.#told.size
  }

  /**
   * Of a rank that has come to this slot, or left it (null). `compare` is told what ranks are beside the one in the middle, in
   * logarithms. `isLearned`: the pool's pace has been seen since, and what is in the middle stays what it was then.
   */
  set(
    slot: number,
    pace: EnginePace | null,
    isLearned: boolean,
    compare: (slot: number, promptLog: number, stepLog: number) => void,
  ): void {
    this.#forget(slot)
    if (pace === null) return
    const told = toldOf(pace)
    this.#told.set(slot, told)
    this.#promptLogs += told.promptLog
    this.#stepLogs += told.stepLog
    const isMoved = (!isLearned || !this.#hasMiddle) && this.#moveMiddle()
    for (const [at, { promptLog, stepLog }] of isMoved ? this.#told : [[slot, told] as const])
      compare(at, promptLog - this.#promptMiddle, stepLog - this.#stepMiddle)
  }

  #moveMiddle(): boolean {
    const { size } = this.#told
    const [prompt, step] = [this.#promptLogs / size, this.#stepLogs / size]
    const apart = [prompt - this.#promptMiddle, step - this.#stepMiddle]
    if (this.#hasMiddle && apart.every((log) => Math.abs(log) < MOVED_LOG)) return false
    this.#hasMiddle = true
    this.#promptMiddle = prompt
    this.#stepMiddle = step
    return true
  }

  /** The mean of the shapes, as slow as the one in the middle. */
  middle(): EnginePace | null {
    const { size } = this.#told
    if (size === 0) return null
    const sum = {
      promptMs: 0,
      promptTokenMs: 0,
      stepMs: 0,
      stepRequestMs: 0,
      stepContextTokenMs: 0,
    }
    for (const { pace, promptLog, stepLog } of this.#told.values()) {
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
    const told = this.#told.get(slot)
    if (told === undefined) return
    this.#told.delete(slot)
    this.#promptLogs -= told.promptLog
    this.#stepLogs -= told.stepLog
  }
}

function toldOf(pace: EnginePace): Told {
  const { promptMs, promptTokenMs, stepMs, stepRequestMs, stepContextTokenMs } = pace
  return {
    pace,
    promptLog: Math.log(promptMs + PROMPT_TOKENS * promptTokenMs),
    stepLog: Math.log(
      stepMs + STEP_REQUESTS * stepRequestMs + STEP_CONTEXT_TOKENS * stepContextTokenMs,
    ),
  }
}
