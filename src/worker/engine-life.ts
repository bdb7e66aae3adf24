/**
 * Start, drain and cleanup of an engine under a worker: started once within a deadline, drained once, cleaned up
 * exactly once.
 *
 * Makes sure that none of the three can hang the worker, and that the configuration reported by the engine is
 * plausible.
 */
import { BatonError, isBatonError, safeText, withDeadline } from '../base/index.ts'
import type { Clock, WorkerId } from '../base/index.ts'
import { engineConfigFault } from '../engine/index.ts'
import type { Engine, EngineObserver } from '../engine/index.ts'
import type { EngineConfig } from '../request/index.ts'

interface EngineLifeOptions {
  readonly engine: Engine
  readonly clock: Clock
  readonly startTimeoutMs: number
  readonly describe?: ((config: EngineConfig) => EngineConfig) | undefined
  readonly onFault: (thrown: unknown) => void
}

export class EngineLife {
  readonly #options: EngineLifeOptions
  readonly #abandoned = new AbortController()
  #drained: Promise<void> = Promise.resolve()
  #cleanup: Promise<void> | null = null

  constructor(options: EngineLifeOptions) {
    this.#options = options
  }

  /** Rejects if the engine does, if it takes too long or is abandoned, and if its configuration is implausible. */
  async start(workerId: WorkerId): Promise<EngineConfig> {
    const { clock, startTimeoutMs } = this.#options
    const started = await withDeadline(
      clock,
      startTimeoutMs,
      this.#started(workerId),
      this.#abandoned.signal,
    )
    if (started.kind === 'cancelled') {
      throw new BatonError('backend.worker_draining', 'the worker was stopped while it started')
    }
    if (started.kind === 'timed_out') {
      const text = `the engine did not start within ${startTimeoutMs} ms (--start-timeout-seconds)`
      throw new BatonError('backend.response_timeout', text, { data: { startTimeoutMs } })
    }
    refuseFalse(started.value)
    return this.#options.describe?.(started.value) ?? started.value
  }

  async #started(workerId: WorkerId): Promise<EngineConfig> {
    try {
      return await this.#options.engine.start(workerId)
    } catch (thrown) {
      throw engineFailure('start', thrown)
    }
  }

  observe(observer: EngineObserver): void {
    try {
      this.#options.engine.observe?.(observer)
    } catch (thrown) {
      throw engineFailure('observe', thrown)
    }
  }

  /** Stops waiting for a start in progress. */
  abandonStart(): void {
    this.#abandoned.abort()
  }

  /** Admission has ended: begins the drain, whose completion is `drained`. */
  drain(): void {
    this.#drained = this.#drain()
  }

  /** Never rejects: an engine that fails to drain is cleaned up anyway. */
  get drained(): Promise<void> {
    return this.#drained
  }

  cleanUpOnce(): Promise<void> {
    this.#cleanup ??= Promise.resolve(this.#options.engine.cleanup())
    return this.#cleanup
  }

  /** For an engine that failed to start and whose cleanup may hang, too. Never rejects. */
  async cleanUpWithin(limitMs: number): Promise<void> {
    try {
      await withDeadline(this.#options.clock, limitMs, this.cleanUpOnce())
    } catch (thrown) {
      this.#options.onFault(thrown)
    }
  }

  async #drain(): Promise<void> {
    try {
      await this.#options.engine.drain?.()
    } catch (thrown) {
      this.#options.onFault(thrown)
    }
  }
}

/**
 * What a call of the engine during the start threw. The process may end with this message alone, so that it names the
 * call; a typed error says enough.
 */
export function engineFailure(call: keyof Engine, thrown: unknown): BatonError {
  const error = BatonError.from(thrown, 'backend.unknown')
  if (isBatonError(thrown)) return error
  const what = error.message === '' ? `${nameOf(thrown)} without a message` : error.message
  return new BatonError('backend.unknown', `the engine's ${call}() threw: ${what}`, {
    cause: thrown,
  })
}

function nameOf(thrown: unknown): string {
  return thrown instanceof Error ? safeText(thrown.name) : 'a text'
}

function refuseFalse(config: EngineConfig): void {
  const fault = engineConfigFault(config)
  if (fault === null) return
  throw new BatonError(
    'backend.contract_violation',
    `the engine's configuration is invalid, the worker is not registered: ${fault.detail}`,
    { data: { rule: 'config-invalid', field: fault.field } },
  )
}
