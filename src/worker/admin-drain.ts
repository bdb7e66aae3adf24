/**
 * Drain and resume by an administrator, while the process stays.
 *
 *   serving → draining → drained        resume: draining | drained → serving
 *   any → stopping (for good)
 *
 * Every drain has a number, so that one that was overtaken by a resume does nothing more.
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
  /** Still serving while routers learn of it. */
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

  /** The worker goes down; nothing can be drained or resumed any more. */
  stop(): void {
    this.#state = 'stopping'
    this.#drainCount++
    this.#grace?.cancel()
  }

  /**
   * Resolves when the worker is out of discovery; the rest goes on behind. Again: does nothing. `graceMsLeast`: also where
   * nobody need hear of the worker's end, somebody may have to hear of its drain.
   */
  async drain(graceMsLeast = 0): Promise<void> {
    this.#refuseWhenStopping()
    if (this.#state !== 'serving') return
    this.#state = 'draining'
    const drain = ++this.#drainCount
    try {
      await this.#options.membership.leave('drained')
    } catch (thrown) {
      if (drain === this.#drainCount) this.#state = 'serving'
      throw this.#remember(thrown)
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
    // Admission first: a router that sees the worker must not be turned away.
    this.#options.admission.open()
    try {
      await this.#options.membership.join('drained')
    } catch (thrown) {
      if (resume === this.#drainCount) {
        this.#options.admission.close()
        this.#state = before
      }
      throw this.#remember(thrown)
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

  #remember(thrown: unknown): BatonError {
    const error = BatonError.from(thrown)
    this.#lastError = error.message
    return error
  }
}
