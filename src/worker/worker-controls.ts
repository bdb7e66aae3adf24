/**
 * Named admin operations on the engine (`/engine/control/<name>`).
 *
 * Most are passed to the engine. Two kinds affect discovery and are serialised: operations that put the engine to
 * sleep first remove the worker from discovery, and if they fail the worker is registered as before; operations that
 * wake it register the worker again, if the engine reports that it is awake.
 */
import { BatonError, isRecord } from '../base/index.ts'
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
      return this.#inTurn(() => this.#putToSleep(() => control(body)))
    }
    if (REGISTER_AFTER.has(name)) {
      return this.#inTurn(async () => {
        const answer = await control(body)
        // The engine is awake even if discovery cannot be told yet, so the answer is the engine's.
        if (isAwake(answer)) await this.#membership.setAbsent('asleep', false)
        return answer
      })
    }
    return control(body)
  }

  /** If the worker cannot leave discovery, the engine is not called: it would get requests while it sleeps. */
  async #putToSleep(call: () => Promise<unknown>): Promise<unknown> {
    const wasAsleep = this.#membership.isAbsent('asleep')
    let sleeps = wasAsleep
    try {
      const error = await this.#membership.setAbsent('asleep', true)
      if (error !== null) throw error
      const answer = await call()
      if (!isRefusal(answer)) sleeps = true
      return answer
    } finally {
      if (!sleeps) await this.#membership.setAbsent('asleep', false)
    }
  }

  #inTurn(work: () => Promise<unknown>): Promise<unknown> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => undefined)
    return mine
  }
}

/** A reply that reports an error, or an engine that still sleeps, does not register the worker again. */
function isAwake(answer: unknown): boolean {
  return !isRefusal(answer) && !(isRecord(answer) && answer['is_sleeping'] === true)
}

function isRefusal(answer: unknown): boolean {
  if (!isRecord(answer)) return false
  const { status, success } = answer
  return success === false || (typeof status === 'string' && status.toLowerCase() === 'error')
}
