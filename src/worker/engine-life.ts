/**
 * The engine's own life under a worker: started once within a deadline, told once to drain, cleaned up exactly once.
 *
 * Owns: that none of the three can hang the worker, and that the configuration which the engine reports is plausible.
 */
import { BatonError, withDeadline } from '../base/index.ts'
import type { Clock, WorkerId } from '../base/index.ts'
import { engineConfigFault } from '../engine/index.ts'
import type { Engine } from '../engine/index.ts'
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

  /** Rejects when the engine does, when it takes too long or is given up, and when its config cannot be true. */
  async start(workerId: WorkerId): Promise<EngineConfig> {
    const { engine, clock, startTimeoutMs } = this.#options
    const started = await withDeadline(
      clock,
      startTimeoutMs,
      Promise.resolve(engine.start(workerId)),
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

  /** A start that is under way is waited for no longer. */
  abandonStart(): void {
    this.#abandoned.abort()
  }

  /** Admission has ended. What comes of it is `drained`. */
  drain(): void {
    this.#drained = this.#drain()
  }

  /** Never rejects: an engine that cannot drain is cleaned up all the same. */
  get drained(): Promise<void> {
    return this.#drained
  }

  cleanUpOnce(): Promise<void> {
    this.#cleanup ??= Promise.resolve(this.#options.engine.cleanup())
    return this.#cleanup
  }

  /** What failed to start may hang in its cleanup as well. Never rejects. */
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

function refuseFalse(config: EngineConfig): void {
  const fault = engineConfigFault(config)
  if (fault === null) return
  throw new BatonError(
    'backend.contract_violation',
    `the engine's configuration is invalid, the worker is not registered: ${fault.detail}`,
    { data: { rule: 'config-invalid', field: fault.field } },
  )
}
