/**
 * How far predicted first-token times are from measured ones, and whether predictions are worth using.
 *
 * Predictions are not used if their error (1: a factor of two) is above `LOST`, until it is below `FOUND`; but they are
 * used as long as that error is less than `CLEARLY` times that of expecting the recent average for every request. Waits
 * inside busy workers are hard to predict, while a rank with a cached prompt is still known to be faster.
 */
const LOST = 1
const FOUND = 0.5
const CLEARLY = 0.6
const JUDGED_AFTER = 64
/** Limited: a single broken connection is not a change of speed. */
const LOG_MAX = Math.log(1 + 10)
/** Decay factor of older errors, per new one. */
const FADE = 0.95

export class PredictionError {
  /** Sum of the absolute logarithms of measured / predicted times, and their weight. */
  #logs = 0
  #weight = 0
  /** The same sum for the expectation that every request takes as long as the recent (geometric) average. */
  #averageLogs = 0
  #averageLog = 0
  #count = 0
  /** Without those that came too early to judge by. */
  #judgeable = 0
  #isLost = false

  /** Mean relative error (geometric mean, recent ones weigh more); null before the first comparison. */
  get mean(): number | null {
    return this.#weight === 0 ? null : Math.exp(this.#logs / this.#weight) - 1
  }

  /** True while predictions are too wrong to be used. */
  get isLost(): boolean {
    return this.#isLost
  }

  /**
   * Records a measured time. `predictedMs` is null if nothing was known: a guess says nothing about predictions.
   * `isEarly`: the request was sent before the rates were known. Its wait was a guess, as were those of all others in an
   * opening burst, so it does not count towards the first judgement, by when it has faded from the mean.
   */
  add(measuredMs: number, predictedMs: number | null, isEarly = false): void {
    // Logarithms, so that too long and too short count alike; a linear relative error of too short a
    // prediction never exceeds 1.
    const log = Math.log(Math.max(measuredMs, 1))
    if (predictedMs !== null) {
      this.#logs = FADE * this.#logs + distance(Math.log(Math.max(predictedMs, 1)), log)
      this.#weight = FADE * this.#weight + 1
      this.#averageLogs = FADE * this.#averageLogs + distance(this.#averageLog, log)
    }
    this.#averageLog = this.#count === 0 ? log : FADE * this.#averageLog + (1 - FADE) * log
    this.#count++
    if (!isEarly) this.#judgeable++
    if (this.#judgeable >= JUDGED_AFTER) this.#isLost = this.#isOff()
  }

  #isOff(): boolean {
    const isUseless = this.#logs > CLEARLY * this.#averageLogs
    return isUseless && (this.mean ?? 0) > (this.#isLost ? FOUND : LOST)
  }
}

function distance(expectedLog: number, log: number): number {
  return Math.min(Math.abs(expectedLog - log), LOG_MAX)
}
