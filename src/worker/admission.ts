/**
 * Counts and limits the requests in a worker. Every entered request leaves exactly once; the last one wakes whoever
 * waits for an empty worker.
 */
import { assert, BatonError } from '../base/index.ts'

export class Admission {
  readonly #limit: number
  #accepting = false
  #inFlight = 0
  #waiters: (() => void)[] = []

  /** `limit`: maximum number of concurrent requests, including those queued in the engine; Infinity for none. */
  constructor(limit: number = Infinity) {
    this.#limit = limit
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get isAccepting(): boolean {
    return this.#accepting
  }

  open(): void {
    this.#accepting = true
  }

  close(): void {
    this.#accepting = false
  }

  /** Null: admitted; call `leave()` at the end. Otherwise the refusal. */
  enter(): BatonError | null {
    if (!this.#accepting) {
      return new BatonError('backend.worker_draining', 'this worker admits no new requests')
    }
    if (this.#inFlight >= this.#limit) {
      return new BatonError(
        'capacity.worker_overloaded',
        `this worker already serves ${this.#inFlight} requests, its limit`,
        { data: { limit: this.#limit } },
      )
    }
    this.#inFlight++
    return null
  }

  leave(): void {
    assert(this.#inFlight > 0, 'more requests left than entered')
    this.#inFlight--
    if (this.#inFlight > 0) return
    const waiters = this.#waiters
    this.#waiters = []
    for (const wake of waiters) wake()
  }

  /** Resolves when no request is in the worker. */
  whenEmpty(): Promise<void> {
    if (this.#inFlight === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiters.push(resolve)
    })
  }
}
