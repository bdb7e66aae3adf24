/**
 * Workers whose entries in discovery have expired. A worker that still answers over its own connection is alive: only
 * its way to discovery is broken, for example because its NATS server hangs. Its requests continue, and it stays in
 * use for as long as it answers.
 */
import type { WorkerId } from '../../base/index.ts'
import type { LeaveReason } from '../../discovery/index.ts'

/** A hung worker is given up after this time without an answer. */
const ANSWER_MS = 3_000

interface SilentWorkersOptions {
  /** Resolves after `withinMs`: true if the worker has answered over its connection. */
  readonly answers: (workerId: WorkerId, withinMs: number) => Promise<boolean>
  readonly onLeft: (workerId: WorkerId, reason: LeaveReason) => void
  /** `isSilent` false: its entry is renewed again, or it has left. */
  readonly onChanged: (workerId: WorkerId, isSilent: boolean) => void
}

export class SilentWorkers {
  readonly #options: SilentWorkersOptions
  /** With the number of the expiry, because an entry may return and expire again during a question. */
  readonly #held = new Map<WorkerId, number>()
  #expiries = 0

  constructor(options: SilentWorkersOptions) {
    this.#options = options
  }

  joined(workerId: WorkerId): void {
    if (this.#held.delete(workerId)) this.#options.onChanged(workerId, false)
  }

  left(workerId: WorkerId, reason: LeaveReason): void {
    if (reason !== 'expired') {
      this.joined(workerId)
      this.#options.onLeft(workerId, reason)
      return
    }
    const expiry = ++this.#expiries
    this.#held.set(workerId, expiry)
    void this.#watch(workerId, expiry)
  }

  close(): void {
    this.#held.clear()
  }

  async #watch(workerId: WorkerId, expiry: number): Promise<void> {
    const isCurrent = (): boolean => this.#held.get(workerId) === expiry
    for (let isFirst = true; await this.#options.answers(workerId, ANSWER_MS); isFirst = false) {
      if (!isCurrent()) return
      if (isFirst) this.#options.onChanged(workerId, true)
    }
    if (!isCurrent()) return
    this.joined(workerId)
    this.#options.onLeft(workerId, 'expired')
  }
}
