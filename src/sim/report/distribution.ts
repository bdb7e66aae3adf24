/**
 * Collects values and computes mean and percentiles. Exact: every value is kept. Percentiles are selected instead of
 * sorted, because a run of an hour has millions of gaps between tokens.
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
  #sum = 0

  get count(): number {
    return this.#count
  }

  add(value: number): void {
    if (this.#count === this.#values.length) this.#grow(1)
    this.#values[this.#count++] = value
    this.#sum += value
  }

  /** Adds the differences between consecutive values. */
  addGaps(times: Float64Array): void {
    if (this.#count + times.length > this.#values.length) this.#grow(times.length)
    const values = this.#values
    let [count, sum] = [this.#count, this.#sum]
    for (let i = 1; i < times.length; i++) {
      const gap = times[i]! - times[i - 1]!
      values[count++] = gap
      sum += gap
    }
    this.#count = count
    this.#sum = sum
  }

  #grow(more: number): void {
    const larger = new Float64Array(2 * this.#values.length + more)
    larger.set(this.#values)
    this.#values = larger
  }

  /** Percentiles by nearest rank; all zero when there is no value. */
  summary(): DistributionSummary {
    const count = this.#count
    if (count === 0) return { count, mean: 0, p50: 0, p90: 0, p99: 0, max: 0 }
    const [p50, p90, p99, max] = this.quantiles([0.5, 0.9, 0.99, 1])
    return { count, mean: this.#sum / count, p50: p50!, p90: p90!, p99: p99!, max: max! }
  }

  /** The values at these shares, by nearest rank; the shares must increase. Empty without values. */
  quantiles(shares: readonly number[]): number[] {
    const count = this.#count
    if (count === 0) return []
    const values = this.#values.slice(0, count)
    let from = 0
    return shares.map((share) => {
      const rank = Math.max(0, Math.ceil(share * count) - 1)
      select(values, from, count - 1, rank)
      from = rank
      return values[rank]!
    })
  }
}

/**
 * Moves the value of this rank to its index, with smaller values before and larger ones after it (quickselect by
 * Hoare).
 */
function select(values: Float64Array, from: number, to: number, rank: number): void {
  let [left, right] = [from, to]
  while (left < right) {
    const pivot = medianOfThree(values[left]!, values[(left + right) >> 1]!, values[right]!)
    let [i, j] = [left, right]
    while (i <= j) {
      while (values[i]! < pivot) i += 1
      while (values[j]! > pivot) j -= 1
      if (i > j) break
      const swapped = values[i]!
      values[i] = values[j]!
      values[j] = swapped
      i += 1
      j -= 1
    }
    if (rank <= j) right = j
    else if (rank >= i) left = i
    else return
  }
}

function medianOfThree(a: number, b: number, c: number): number {
  return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c))
}
