/** The workers that this frontend is connected to, and the start-up that waits for a number of them. */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'

export class ConnectedWorkers {
  readonly #ids = new Set<WorkerId>()
  #onAdded: (() => void) | null = null

  get count(): number {
    return this.#ids.size
  }

  add(workerId: WorkerId): void {
    this.#ids.add(workerId)
    this.#onAdded?.()
  }

  delete(workerId: WorkerId): void {
    this.#ids.delete(workerId)
  }

  /** Resolves when `workers` workers are connected; rejects with `backend.worker_unavailable` after `deadlineMs`. */
  async until(workers: number, deadlineMs: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        const message = `${this.count} of ${workers} workers are connected after ${deadlineMs / 1000} s`
        reject(new BatonError('backend.worker_unavailable', message))
      }, deadlineMs)
      // A process that is told to end meanwhile does not wait for this timer.
      timer.unref()
      this.#onAdded = () => {
        if (this.count < workers) return
        clearTimeout(timer)
        resolve()
      }
      this.#onAdded()
    })
  }
}
