/**
 * Named admin operations on the engine (`/engine/control/<name>`).
 *
 * Most are passed to the engine. Two kinds affect discovery and are serialised: operations that put the engine to
 * sleep first remove the worker from discovery; operations that wake it register the worker again, if the engine
 * reports that it is awake.
 */
import { BatonError } from '../base/index.ts'
import type { Engine } from '../engine/index.ts'
import type { Membership } from './membership.ts'

const UNREGISTER_BEFORE = new Set(['pause_generation', 'sleep', 'release_memory_occupation'])
const REGISTER_AFTER = new Set(['resume_generation', 'wake_up', 'resume_memory_occupation'])

export class WorkerControls {
  readonly #engine: Engine
  readonly #membership: Membership
  readonly #isRunning: () => boolean
  #turn: Promise<unknown> = Promise.resolve()

  constructor(engine: Engine, membership: Membership, isRunning: () => boolean) {
    this.#engine = engine
    this.#membership = membership
    this.#isRunning = isRunning
  }

  /** Throws `request.not_found` if the engine has no such operation, `request.conflict` if the worker is not running. */
  async run(name: string, body: unknown): Promise<unknown> {
    const controls = this.#engine.controls ?? {}
    const control = Object.hasOwn(controls, name) ? controls[name] : undefined
    if (control === undefined) {
      throw new BatonError('request.not_found', `the engine has no control '${name}'`)
    }
    if (!this.#isRunning()) {
      throw new BatonError(
        'request.conflict',
        `the worker is not running; '${name}' was not called`,
      )
    }
    if (UNREGISTER_BEFORE.has(name)) {
      return this.#inTurn(async () => {
        await this.#membership.leave('asleep')
        return control(body)
      })
    }
    if (REGISTER_AFTER.has(name)) {
      return this.#inTurn(async () => {
        const answer = await control(body)
        if (isAwake(answer)) await this.#membership.join('asleep')
        return answer
      })
    }
    return control(body)
  }

  #inTurn(work: () => Promise<unknown>): Promise<unknown> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => undefined)
    return mine
  }
}

/** A reply that reports an error, or an engine that still sleeps, does not register the worker again. */
function isAwake(answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null) return true
  const { status, success, is_sleeping } = answer as Record<string, unknown>
  const isError = typeof status === 'string' && status.toLowerCase() === 'error'
  return !isError && success !== false && is_sleeping !== true
}
