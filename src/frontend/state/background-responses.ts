/**
 * Background responses: which of them run in this process, and how any process cancels them.
 *
 * Other frontends with the same store see from a sign of life that is renewed whether a response is still
 * running, and cancel it with a mark.
 */
import type { Clock } from '../../base/index.ts'
import { BatonError } from '../../base/index.ts'
import type { StoredResponses } from './stored-responses.ts'

const BEAT_MS = 1_000
/** A process that has not renewed the sign of life for so long is dead. */
const SILENT_MS = 15_000

type Stored = Pick<StoredResponses, 'sign' | 'readSign'>

export class BackgroundResponses {
  readonly #clock: Clock
  readonly #running = new Map<string, AbortController>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#running.size
  }

  /**
   * Starts `work`, which is told when to end. `fail` is called once when it does not complete, with
   * `request.cancelled` after a cancellation.
   */
  begin(
    id: string,
    stored: Stored,
    work: (signal: AbortSignal) => Promise<unknown>,
    fail: (error: BatonError) => void,
  ): void {
    const control = new AbortController()
    this.#running.set(id, control)
    let isOver = false
    const beat = (): void => {
      if (isOver) return
      stored.sign(id, 'alive', String(this.#clock.epochMs()))
      if (stored.readSign(id, 'cancel') !== undefined) control.abort()
      this.#clock.after(BEAT_MS, beat)
    }
    beat()
    work(control.signal)
      .catch((thrown: unknown) => fail(BatonError.from(thrown)))
      .finally(() => {
        isOver = true
        this.#running.delete(id)
      })
  }

  /** Ends the response soon, in this process or another one. */
  cancel(id: string, stored: Stored): void {
    stored.sign(id, 'cancel', '1')
    this.#running.get(id)?.abort()
  }

  /** True when a process is still computing it. */
  isAlive(id: string, stored: Stored): boolean {
    if (this.#running.has(id)) return true
    const seenMs = Number(stored.readSign(id, 'alive') ?? 0)
    return this.#clock.epochMs() - seenMs < SILENT_MS
  }
}
