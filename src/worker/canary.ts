/**
 * Sends a small probe request to an idle engine from time to time, so that a dead engine is noticed before a user's
 * request meets it.
 *
 * One probe at a time: an engine that has not answered yet is not probed again, so that probes do not pile up in a
 * hung one.
 */
import type { Clock, Timer } from '../base/index.ts'
import { BatonError, withDeadline } from '../base/index.ts'
import { RequestContext } from '../engine/index.ts'
import type { Engine } from '../engine/index.ts'
import type { GenerateRequest } from '../request/index.ts'

interface CanaryOptions {
  readonly clock: Clock
  readonly engine: Engine
  readonly request: GenerateRequest
  readonly idleMs: number
  readonly timeoutMs: number
  /** True while real requests show that the engine works. */
  readonly isBusy: () => boolean
  readonly onResult: (error: BatonError | null) => void
}

export class Canary {
  readonly #options: CanaryOptions
  #timer: Timer | null = null
  #closed = false
  #count = 0
  /** The probe whose engine call has not returned, in time or late. */
  #asked: RequestContext | null = null

  constructor(options: CanaryOptions) {
    this.#options = options
  }

  start(): void {
    if (this.#options.idleMs !== Infinity) this.#arm()
  }

  close(): void {
    this.#closed = true
    this.#timer?.cancel()
    this.#asked?.kill()
  }

  /** Runs one probe. Null: the first item arrived in time and was not an error. */
  async #probe(): Promise<BatonError | null> {
    const { clock, request, timeoutMs } = this.#options
    if (this.#asked !== null) return unanswered(timeoutMs)
    const context = new RequestContext(`${request.requestId}-${++this.#count}`)
    this.#asked = context
    try {
      const outcome = await withDeadline(clock, timeoutMs, this.#firstItem(context))
      return outcome.kind === 'done' ? null : unanswered(timeoutMs)
    } catch (thrown) {
      return BatonError.from(thrown, 'backend.unknown')
    } finally {
      context.kill()
    }
  }

  async #firstItem(context: RequestContext): Promise<void> {
    const { engine, request } = this.#options
    const { requestId } = context
    try {
      for await (const _ of engine.generate({ ...request, requestId, isProbe: true }, context))
        return
      throw new BatonError(
        'backend.stream_incomplete',
        'the engine answered a probe without a token',
      )
    } finally {
      this.#asked = null
    }
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(this.#options.idleMs, () => void this.#tick())
  }

  async #tick(): Promise<void> {
    if (!this.#options.isBusy()) {
      const error = await this.#probe()
      if (!this.#closed) this.#options.onResult(error)
    }
    if (!this.#closed) this.#arm()
  }
}

function unanswered(timeoutMs: number): BatonError {
  return new BatonError(
    'backend.response_timeout',
    `the engine did not answer a probe within ${timeoutMs} ms`,
  )
}
