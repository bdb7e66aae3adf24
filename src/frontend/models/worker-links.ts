/**
 * Tracks which workers can be reached: a worker counts from the moment when an authenticated connection to it
 * exists.
 *
 * Without a request plane that reports its connections (direct calls, an embedding program) every worker
 * counts.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'

export class WorkerLinks {
  readonly #isReported: boolean
  /** Connected workers, and the offsets of their clocks. */
  readonly #up = new Map<WorkerId, number>()
  readonly #faults = new Map<WorkerId, BatonError>()

  constructor(isReported: boolean) {
    this.#isReported = isReported
  }

  isUp(workerId: WorkerId): boolean {
    return !this.#isReported || this.#up.has(workerId)
  }

  /** Why there is no connection; null also during the first attempt. */
  faultOf(workerId: WorkerId): BatonError | null {
    return this.#faults.get(workerId) ?? null
  }

  /** Workers to which no connection can be made. One that was told that it gets no requests could be connected to. */
  get unreachable(): readonly WorkerId[] {
    return [...this.#faults.keys()].filter((workerId) => this.isOutOfReach(workerId))
  }

  isOutOfReach(workerId: WorkerId): boolean {
    const fault = this.#faults.get(workerId)
    return fault !== undefined && fault.code !== 'backend.worker_differs'
  }

  /** By how much the worker's clock is at least ahead of the one here, when the connection was made. */
  clockOffsetMs(workerId: WorkerId): number {
    return this.#up.get(workerId) ?? 0
  }

  up(workerId: WorkerId, clockOffsetMs: number): void {
    this.#up.set(workerId, clockOffsetMs)
    this.#faults.delete(workerId)
  }

  /**
   * Returns true when the worker was connected before or the reason is new. `fault` null: the worker is not
   * known any more.
   */
  down(workerId: WorkerId, fault: BatonError | null): boolean {
    const before = this.#faults.get(workerId)
    const wasUp = this.#up.delete(workerId)
    if (fault !== null) this.#faults.set(workerId, fault)
    return wasUp || before?.message !== fault?.message
  }

  /** It is connected to from now on. The connection over which it was told that it is refused says nothing any more. */
  admitted(workerId: WorkerId): void {
    if (this.#faults.get(workerId)?.code === 'backend.worker_differs') this.#faults.delete(workerId)
  }

  /** The worker has left; its connection may last longer. */
  forgetFault(workerId: WorkerId): void {
    this.#faults.delete(workerId)
  }
}
