/**
 * Online least squares over a few features with exponential forgetting and non-negative coefficients.
 *
 * Memory is a k × k matrix, and every observation takes constant time. Observations are weighted by relative error,
 * so that a prompt of a hundred tokens counts as much as one of fifty thousand. A weak ridge term towards `prior`
 * determines what has not been observed: a feature that never varies does not take part in the fit.
 */

/** Ridge weight: ten observations outweigh it, but coefficients that the data cannot separate stay at the prior. */
export const PULL = 1e-4

export class FadingFit {
  count = 0
  readonly coefficients: Float64Array
  readonly #prior: readonly number[]
  readonly #fade: number
  /** Sums of feature × feature (row by row) and feature × observation. */
  readonly #xx: Float64Array
  readonly #xy: Float64Array
  /** Predictions below this value are weighted as if they were this large. */
  readonly #floor: number
  /** Scratch space for the solution: features that take part, rows of their equations, result. */
  readonly #used: Int32Array
  readonly #rows: readonly Float64Array[]
  readonly #solution: Float64Array

  readonly #pulls: readonly number[]
  readonly #beliefs: readonly number[]
  /** Number of observations, faded. */
  #weight = 0

  /**
   * `pulls`: lasting ridge weight of each coefficient, `PULL` by default. `beliefs`: of how many observations the prior
   * of each has the weight in addition; none by default.
   */
  constructor(
    prior: readonly number[],
    fade: number,
    floor: number,
    pulls: readonly number[] = [],
    beliefs: readonly number[] = [],
  ) {
    this.#pulls = pulls
    this.#beliefs = beliefs
    const size = prior.length
    this.#prior = prior
    this.#fade = fade
    this.#floor = floor
    this.coefficients = Float64Array.from(prior)
    this.#xx = new Float64Array(size * size)
    this.#xy = new Float64Array(size)
    this.#used = new Int32Array(size)
    this.#rows = prior.map(() => new Float64Array(size + 1))
    this.#solution = new Float64Array(size)
  }

  predict(features: readonly number[]): number {
    let sum = 0
    for (let i = 0; i < features.length; i++)
      sum += (this.coefficients[i] as number) * (features[i] as number)
    return sum
  }

  /** `share`: how much the observation counts, 0 to 1. */
  add(features: readonly number[], value: number, share = 1): void {
    const size = this.#prior.length
    // Weighted by the prediction, not the observation: otherwise small observations would count most.
    const weight = share / Math.max(this.predict(features), this.#floor) ** 2
    this.count++
    this.#weight = this.#fade * this.#weight + share
    for (let i = 0; i < size; i++) {
      const x = weight * (features[i] as number)
      this.#xy[i] = this.#fade * (this.#xy[i] as number) + x * value
      for (let j = 0; j < size; j++) {
        const at = i * size + j
        this.#xx[at] = this.#fade * (this.#xx[at] as number) + x * (features[j] as number)
      }
    }
    this.#solve()
  }

  /** Solves; a feature whose coefficient would be negative is removed and the rest solved again. */
  #solve(): void {
    const [used, solution] = [this.#used, this.#solution]
    let n = used.length
    for (let i = 0; i < n; i++) used[i] = i
    for (;;) {
      this.#solveFor(n)
      let worst = -1
      for (let i = 0; i < n; i++) {
        if ((solution[i] as number) < (worst === -1 ? 0 : (solution[worst] as number))) worst = i
      }
      if (worst === -1) break
      used.copyWithin(worst, worst + 1, n)
      n -= 1
    }
    this.coefficients.fill(0)
    for (let i = 0; i < n; i++) this.coefficients[used[i] as number] = solution[i] as number
  }

  /** Gaussian elimination over the first `n` entries of `used`; the ridge term makes the matrix regular. */
  #solveFor(n: number): void {
    const [rows, solution] = [this.#rows, this.#solution]
    this.#fillRows(n)
    for (let at = 0; at < n; at++) {
      const pivot = rows[at] as Float64Array
      const head = pivot[at] as number
      for (let other = 0; other < n; other++) {
        if (other === at || head === 0) continue
        const row = rows[other] as Float64Array
        const share = (row[at] as number) / head
        for (let j = at; j <= n; j++) row[j] = (row[j] as number) - share * (pivot[j] as number)
      }
    }
    for (let i = 0; i < n; i++) {
      const row = rows[i] as Float64Array
      solution[i] = row[i] === 0 ? 0 : (row[n] as number) / (row[i] as number)
    }
  }

  #fillRows(n: number): void {
    const [size, used] = [this.#prior.length, this.#used]
    for (let place = 0; place < n; place++) {
      const i = used[place] as number
      const row = this.#rows[place] as Float64Array
      for (let j = 0; j < n; j++) row[j] = this.#xx[i * size + (used[j] as number)] as number
      const diagonal = this.#xx[i * size + i] as number
      const belief = (this.#beliefs[i] ?? 0) / Math.max(this.#weight, Number.MIN_VALUE)
      const pull = ((this.#pulls[i] ?? PULL) + belief) * diagonal + Number.MIN_VALUE
      row[place] = diagonal + pull
      row[n] = (this.#xy[i] as number) + pull * (this.#prior[i] as number)
    }
  }
}
