/**
 * Tells a request that its client has disconnected. There is one per request, so it is a flag and a list instead of
 * an EventTarget.
 */
import type { CancelSignal } from '../../base/index.ts'

export class ClientSignal implements CancelSignal {
  #aborted = false
  #reason: string | undefined
  /** Most requests have a single listener at a time. */
  #listener: (() => void) | null = null
  #others: (() => void)[] | null = null

  get aborted(): boolean {
    return this.#aborted
  }

  /** Absent: the client disconnected by itself. */
  get reason(): string | undefined {
    return this.#reason
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (this.#listener === null && this.#others === null) this.#listener = listener
    else (this.#others ??= []).push(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#listener === listener) this.#listener = null
    if (this.#others === null) return
    const left = this.#others.filter((other) => other !== listener)
    this.#others = left.length === 0 ? null : left
  }

  /** Idempotent. */
  abort(reason?: string): void {
    if (this.#aborted) return
    this.#aborted = true
    this.#reason = reason
    const [first, others] = [this.#listener, this.#others]
    this.#listener = null
    this.#others = null
    first?.()
    for (const listener of others ?? []) listener()
  }
}
