/** What the engine says about its availability. While it is unavailable it gets no requests, as in a worker. */
import { BatonError } from '../../base/index.ts'
import { thrownText } from './thrown-text.ts'

type Within = <T>(promise: Promise<T>) => Promise<T | undefined>

export class Availability {
  /** Any value; only null means available. */
  #reason: unknown = null
  #waiting: (() => void)[] = []

  set(reason: unknown): void {
    this.#reason = reason
    if (reason !== null) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const proceed of waiting) proceed()
  }

  /** Null when the engine is available, or why it is not when the deadline of `within` has passed. */
  async reached(within: Within): Promise<BatonError | null> {
    if (this.#reason === null || (await within(this.#available())) === true) return null
    const text = `the engine stays unavailable: ${thrownText(this.#reason)}`
    return new BatonError('backend.worker_unavailable', text)
  }

  /** An engine may be unavailable again before those that wait proceed. */
  async #available(): Promise<true> {
    while (this.#reason !== null) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
      })
    }
    return true
  }
}
