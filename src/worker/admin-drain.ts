/**
 * Drain and resume on request of an administrator, while the process keeps running.
 *
 *   serving → draining → drained        resume: draining | drained → serving
 *   any → stopping (for good)
 *
 * Every drain has a number, so that a drain overtaken by a resume has no further effect.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, Timer } from '../base/index.ts'
import type { Admission } from './admission.ts'
import type { Membership } from './membership.ts'

export type AdminState = 'serving' | 'draining' | 'drained' | 'stopping'

interface AdminDrainOptions {
  readonly clock: Clock
  readonly admission: Admission
  readonly membership: Membership
  /** Time to keep serving while routers learn of the drain, in milliseconds. */
  readonly graceMs: number
}

export class AdminDrain {
  readonly #options: AdminDrainOptions
  #state: AdminState = 'serving'
  #drainCount = 0
  #grace: Timer | null = null
  #lastError: string | undefined

  constructor(options: AdminDrainOptions) {
    this.#options = options
  }

  get state(): AdminState {
    return this.#state
  }

  get lastError(): string | undefined {
    return this.#lastError
  }

  /** The worker shuts down; drain and resume are refused from now on. */
  stop(): void {
    this.#state = 'stopping'
    this.#drainCount++
    this.#grace?.cancel()
  }

  /**
   * Resolves when the worker has left discovery; the rest continues in the background. A second call has no effect.
   * `graceMsLeast`: minimum grace time, for peers that must learn of a drain but not of the worker's end.
   */
  async drain(graceMsLeast = 0): Promise<void> {
    this.#refuseWhenStopping()
    if (this.#state !== 'serving') return
    this.#state = 'draining'
    const drain = ++this.#drainCount
    const { membership } = this.#options
    const error = await membership.setAbsent('drained', true)
    if (error !== null) {
      if (drain === this.#drainCount) {
        this.#state = 'serving'
        void membership.setAbsent('drained', false)
      }
      throw this.#remember(error)
    }
    if (drain !== this.#drainCount) return
    const { clock, graceMs } = this.#options
    this.#grace = clock.after(Math.max(graceMs, graceMsLeast), () => void this.#finish(drain))
  }

  async resume(): Promise<void> {
    this.#refuseWhenStopping()
    if (this.#state === 'serving') return
    const before = this.#state
    const resume = ++this.#drainCount
    this.#grace?.cancel()
    // Opens admission first, so that a router that sees the worker is not refused.
    const { admission, membership } = this.#options
    admission.open()
    const error = await membership.setAbsent('drained', false)
    if (error !== null) {
      if (resume === this.#drainCount) {
        admission.close()
        this.#state = before
        void membership.setAbsent('drained', true)
      }
      throw this.#remember(error)
    }
    if (resume !== this.#drainCount) return
    this.#state = 'serving'
    this.#lastError = undefined
  }

  async #finish(drain: number): Promise<void> {
    const { admission } = this.#options
    admission.close()
    await admission.whenEmpty()
    if (drain === this.#drainCount) this.#state = 'drained'
  }

  #refuseWhenStopping(): void {
    if (this.#state === 'stopping') {
      throw new BatonError('request.conflict', 'the worker is stopping; this cannot be undone')
    }
  }

  #remember(error: BatonError): BatonError {
    this.#lastError = error.message
    return error
  }
}
