/**
 * The candidates with the lowest costs, best first, maintained while costs are computed, so that a candidate that
 * already costs more than the last of them needs no further terms. On equal costs the one that was offered first
 * wins.
 */
export class CheapestRanks {
  count = 0
  /** The highest cost in the list; a cost above it does not enter. */
  worst = Infinity
  #limit = 0
  #indices = new Int32Array(16)
  #costs = new Float64Array(16)

  /** Starts an empty list; at least two entries are kept. */
  begin(limit: number): void {
    if (limit > this.#costs.length) {
      this.#indices = new Int32Array(limit)
      this.#costs = new Float64Array(limit)
    }
    this.#limit = Math.max(limit, 2)
    this.count = 0
    this.worst = Infinity
  }

  /** Offers one candidate; call in candidate order. */
  offer(index: number, cost: number): void {
    if (cost < this.worst || this.count < this.#limit) this.#insert(index, cost)
  }

  /** Offers all costs that were computed. */
  offerAll(costs: Float64Array, count: number): void {
    for (let i = 0; i < count; i++) this.offer(i, costs[i] as number)
  }

  indexAt(place: number): number {
    return this.#indices[place] as number
  }

  /** True if the first candidate costs less than every other; there must be at least one. */
  get hasLowest(): boolean {
    return this.count === 1 || (this.#costs[0] as number) < (this.#costs[1] as number)
  }

  #insert(index: number, cost: number): void {
    const [indices, costs, limit] = [this.#indices, this.#costs, this.#limit]
    let at = this.count < limit ? this.count++ : limit - 1
    for (; at > 0 && (costs[at - 1] as number) > cost; at--) {
      costs[at] = costs[at - 1] as number
      indices[at] = indices[at - 1] as number
    }
    costs[at] = cost
    indices[at] = index
    if (this.count === limit) this.worst = costs[limit - 1] as number
  }
}
