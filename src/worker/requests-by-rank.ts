/**
 * How many requests the worker has in flight for each data-parallel rank of its engine. A request that names no rank
 * may be on any of them.
 */
import type { DisaggregationMode, GenerateRequest } from '../request/index.ts'

export class RequestsByRank {
  readonly #mode: DisaggregationMode
  readonly #named = new Map<number, number>()
  #unnamed = 0

  constructor(mode: DisaggregationMode) {
    this.#mode = mode
  }

  entered(request: GenerateRequest): void {
    this.#count(request, 1)
  }

  left(request: GenerateRequest): void {
    this.#count(request, -1)
  }

  /** No more requests than this can be on the rank. */
  mostOn(dpRank: number): number {
    return this.#unnamed + (this.#named.get(dpRank) ?? 0)
  }

  #count({ routing }: GenerateRequest, change: number): void {
    const { dpRank, prefillDpRank } = routing
    const rank = this.#mode === 'prefill' ? (prefillDpRank ?? dpRank) : dpRank
    if (rank === undefined) {
      this.#unnamed += change
      return
    }
    const count = (this.#named.get(rank) ?? 0) + change
    if (count === 0) this.#named.delete(rank)
    else this.#named.set(rank, count)
  }
}
