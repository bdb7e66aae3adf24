/**
 * Tells a request that its client has gone. One for every request, so it is no EventTarget: a flag and a list.
 */
import type { CancelSignal } from '../../base/index.ts'

export class ClientSignal implements CancelSignal {
  #aborted = false
  #reason: string | undefined
  /** Most requests have one, and pushed to an empty array it would make room for seventeen. */
  #listeners: readonly (() => void)[] = []

  get aborted(): boolean {
    return this.#aborted
  }

  /** Absent: the client has left by itself. */
  get reason(): string | undefined {
    return this.#reason
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners = this.#listeners.concat(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners = this.#listeners.filter((other) => other !== listener)
  }

  /** Idempotent. */
  abort(reason?: string): void {
    if (this.#aborted) return
    this.#aborted = true
    this.#reason = reason
    const listeners = this.#listeners
    this.#listeners = []
    for (const listener of listeners) listener()
  }
}
