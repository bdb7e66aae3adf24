/**
 * The candidates with the lowest costs, best first, kept while costs are computed: what already costs more than the last
 * of them needs no further terms.
 *
 * Of equal costs the first one stands first.
 */
export class CheapestRanks {
  count = 0
  /** A cost above this one is not among them. */
  worst = Infinity
  #limit = 0
  #indices = new Int32Array(16)
  #costs = new Float64Array(16)

  /** At least two are kept. */
  begin(limit: number): void {
    if (limit > this.#costs.length) {
      this.#indices = new Int32Array(limit)
      this.#costs = new Float64Array(limit)
    }
    this.#limit = Math.max(limit, 2)
    this.count = 0
    this.worst = Infinity
  }

  /** Costs come in the order of the candidates. */
  offer(index: number, cost: number): void {
    if (cost < this.worst || this.count < this.#limit) this.#insert(index, cost)
  }

  /** Of all that were computed. */
  offerAll(costs: Float64Array, count: number): void {
    for (let i = 0; i < count; i++) this.offer(i, costs[i] as number)
  }

  indexAt(place: number): number {
    return this.#indices[place] as number
  }

  /** The first one costs less than every other candidate; there is one. */
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
