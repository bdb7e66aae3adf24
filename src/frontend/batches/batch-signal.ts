/** Cancels the requests of a batch. Lighter than an AbortSignal, which warns about many listeners. */
import type { CancelSignal } from '../../base/index.ts'

export class BatchSignal implements CancelSignal {
  aborted = false
  readonly #listeners = new Set<() => void>()

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    for (const listener of this.#listeners) listener()
    this.#listeners.clear()
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (!this.aborted) this.#listeners.add(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.delete(listener)
  }
}
