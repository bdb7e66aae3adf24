/**
 * Asks an idle engine a small question now and then, so that a dead one is noticed before a user meets it.
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
  /** True while real requests are proof enough. */
  readonly isBusy: () => boolean
  readonly onResult: (error: BatonError | null) => void
}

export class Canary {
  readonly #options: CanaryOptions
  #timer: Timer | null = null
  #closed = false
  #count = 0

  constructor(options: CanaryOptions) {
    this.#options = options
  }

  start(): void {
    if (this.#options.idleMs !== Infinity) this.#arm()
  }

  close(): void {
    this.#closed = true
    this.#timer?.cancel()
  }

  /** One probe now. Null: the first item came in time and was no error. */
  async probe(): Promise<BatonError | null> {
    const { clock, engine, request, timeoutMs } = this.#options
    const requestId = `${request.requestId}-${++this.#count}`
    const context = new RequestContext(requestId)
    const firstItem = async (): Promise<void> => {
      for await (const _ of engine.generate({ ...request, requestId, isProbe: true }, context))
        return
      throw new BatonError('backend.stream_incomplete', 'the engine answered a probe with nothing')
    }
    try {
      const outcome = await withDeadline(clock, timeoutMs, firstItem())
      if (outcome.kind === 'done') return null
      return new BatonError(
        'backend.response_timeout',
        `the engine did not answer a probe within ${timeoutMs} ms`,
      )
    } catch (thrown) {
      return BatonError.from(thrown, 'backend.unknown')
    } finally {
      context.kill()
    }
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(this.#options.idleMs, () => void this.#tick())
  }

  async #tick(): Promise<void> {
    if (!this.#options.isBusy()) {
      const error = await this.probe()
      if (!this.#closed) this.#options.onResult(error)
    }
    if (!this.#closed) this.#arm()
  }
}
