/**
 * Collects measured values and says mean and percentiles. Exact: every value is kept, sorted once when asked.
 */
export interface DistributionSummary {
  readonly count: number
  readonly mean: number
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly max: number
}

export class Distribution {
  #values = new Float64Array(1024)
  #count = 0

  add(value: number): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(2 * this.#count)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#count++] = value
  }

  /** Percentiles by nearest rank; all zero when there is no value. */
  summary(): DistributionSummary {
    const count = this.#count
    if (count === 0) return { count, mean: 0, p50: 0, p90: 0, p99: 0, max: 0 }
    const sorted = this.#values.slice(0, count).sort()
    let sum = 0
    for (const value of sorted) sum += value
    const at = (share: number): number => sorted[Math.max(0, Math.ceil(share * count) - 1)]!
    return { count, mean: sum / count, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) }
  }
}
