/**
 * Tells a request that its client has gone. One for every request, so it is no EventTarget: a flag and a list.
 */
import type { CancelSignal } from '../../base/index.ts'

export class ClientSignal implements CancelSignal {
  #aborted = false
  #listeners: (() => void)[] = []

  get aborted(): boolean {
    return this.#aborted
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.push(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener)
    if (at !== -1) this.#listeners.splice(at, 1)
  }

  /** Idempotent. */
  abort(): void {
    if (this.#aborted) return
    this.#aborted = true
    const listeners = this.#listeners
    this.#listeners = []
    for (const listener of listeners) listener()
  }
}
