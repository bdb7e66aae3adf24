/**
 * Tells a request that its client has gone. One for every request, so it is no EventTarget: a flag and a list.
 */
import type { CancelSignal } from '../../base/index.ts'

export class ClientSignal implements CancelSignal {
  #aborted = false
  /** Most requests have one, and pushed to an empty array it would make room for seventeen. */
  #listeners: readonly (() => void)[] = []

  get aborted(): boolean {
    return this.#aborted
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners = this.#listeners.concat(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners = this.#listeners.filter((other) => other !== listener)
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
