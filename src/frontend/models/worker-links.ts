/**
 * Which workers can be reached now: a worker counts from the moment at which an authenticated connection to it stands.
 *
 * Without a request plane that reports its connections (plain calls, an embedding program) everybody counts.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'

export class WorkerLinks {
  readonly #isReported: boolean
  readonly #up = new Set<WorkerId>()
  readonly #faults = new Map<WorkerId, BatonError>()

  constructor(isReported: boolean) {
    this.#isReported = isReported
  }

  isUp(workerId: WorkerId): boolean {
    return !this.#isReported || this.#up.has(workerId)
  }

  /** Why there is no connection; null also while the first attempt is under way. */
  faultOf(workerId: WorkerId): BatonError | null {
    return this.#faults.get(workerId) ?? null
  }

  up(workerId: WorkerId): void {
    this.#up.add(workerId)
    this.#faults.delete(workerId)
  }

  /** True when it was up before or the reason is another one. `fault` null: the worker is not known any more. */
  down(workerId: WorkerId, fault: BatonError | null): boolean {
    const before = this.#faults.get(workerId)
    const wasUp = this.#up.delete(workerId)
    if (fault !== null) this.#faults.set(workerId, fault)
    return wasUp || before?.message !== fault?.message
  }

  /** The worker has left. A connection may stand for longer. */
  forgetFault(workerId: WorkerId): void {
    this.#faults.delete(workerId)
  }
}
