/**
 * Decides when a worker changes its role between prefill and decode. Pure: takes views, returns decisions.
 *
 * A role is short if its pressure has been above 1 for all of `holdMs` while the other role's was below `spare`. Then
 * one worker of the other role changes, and nothing more for `restMs`, so that the effect can be seen. The gap
 * between `spare` and 1 and the two times provide hysteresis: a fleet between them stays as it is.
 *
 *   pressure of prefill = max(predicted TTFT / goal, queued, and none waits for decode ? 1.5 : 0)
 *   pressure of decode  = max(utilisation / target, queued ? 1.5 : 0)
 *
 * While requests wait for decode, prefill requests may be held back by them; then only the prediction counts for
 * prefill.
 */
import type { WorkerId } from '../../base/index.ts'
import type { RoleLoad } from './role-load.ts'

export type Role = 'prefill' | 'decode'

export interface RoleView {
  readonly nowMs: number
  readonly prefill: RoleLoad
  readonly decode: RoleLoad
  /** Workers that may change, by their current role, the least busy first. */
  readonly changeable: Readonly<Record<Role, readonly WorkerId[]>>
}

export interface RoleChange {
  readonly workerId: WorkerId
  readonly from: Role
  readonly to: Role
  /** For the log: what was observed and for how long. */
  readonly why: string
}

export interface RoleControllerOptions {
  readonly ttftGoalMs: number
  /** Intended utilisation of decode workers. */
  readonly utilisationTarget: number
  /** Below this pressure a role can give a worker away. */
  readonly spare: number
  readonly holdMs: number
  readonly restMs: number
}

export const DEFAULT_ROLE_CONTROL: RoleControllerOptions = Object.freeze({
  ttftGoalMs: 2_000,
  utilisationTarget: 0.8,
  spare: 0.6,
  holdMs: 15_000,
  restMs: 60_000,
})

const QUEUED = 1.5

export class RoleController {
  readonly #options: RoleControllerOptions
  /** Since when each role has been short; null: it is not. */
  readonly #shortSince: Record<Role, number | null> = { prefill: null, decode: null }
  #restUntilMs = -Infinity

  constructor(options: Partial<RoleControllerOptions> = {}) {
    this.#options = { ...DEFAULT_ROLE_CONTROL, ...options }
  }

  /** Null: nothing to do now. Call at least twice per `holdMs`. */
  decide(view: RoleView): RoleChange | null {
    const { nowMs } = view
    const pressure = this.pressureOf(view)
    for (const role of ['prefill', 'decode'] as const) {
      const isShort = pressure[role] > 1 && pressure[otherThan(role)] < this.#options.spare
      if (!isShort) this.#shortSince[role] = null
      else this.#shortSince[role] ??= nowMs
    }
    if (nowMs < this.#restUntilMs) return null
    for (const role of ['prefill', 'decode'] as const) {
      const sinceMs = this.#shortSince[role]
      if (sinceMs === null || nowMs - sinceMs < this.#options.holdMs) continue
      const from = otherThan(role)
      const [workerId] = view.changeable[from]
      // The last worker of a role stays: without it nothing could be served.
      if (workerId === undefined || view[from].workers < 2) continue
      this.#restUntilMs = nowMs + this.#options.restMs
      this.#shortSince[role] = null
      const why = this.#explain(view, role, pressure, nowMs - sinceMs)
      return { workerId, from, to: role, why }
    }
    return null
  }

  /** Another frontend has changed a worker: wait for the effect. */
  rest(nowMs: number, forMs = this.#options.restMs): void {
    this.#restUntilMs = nowMs + forMs
    this.#shortSince.prefill = null
    this.#shortSince.decode = null
  }

  pressureOf({ prefill, decode }: RoleView): Readonly<Record<Role, number>> {
    const { ttftGoalMs, utilisationTarget } = this.#options
    return {
      prefill: Math.max(
        (prefill.predictedTtftMs ?? 0) / ttftGoalMs,
        prefill.queuedRequests > 0 && decode.queuedRequests === 0 ? QUEUED : 0,
      ),
      decode: Math.max(
        decode.utilisation / utilisationTarget,
        decode.queuedRequests > 0 ? QUEUED : 0,
      ),
    }
  }

  #explain(
    { prefill, decode }: RoleView,
    short: Role,
    pressure: Readonly<Record<Role, number>>,
    heldMs: number,
  ): string {
    const ttft =
      prefill.predictedTtftMs === null ? 'unknown' : `${Math.round(prefill.predictedTtftMs)} ms`
    const { ttftGoalMs, restMs } = this.#options
    return [
      `${short} has been short for ${Math.round(heldMs / 1000)} s`,
      `pressure prefill ${pressure.prefill.toFixed(2)}, decode ${pressure.decode.toFixed(2)}`,
      `predicted TTFT ${ttft} of ${ttftGoalMs} ms, ${prefill.queuedRequests} + ${decode.queuedRequests} queued`,
      `decode ${Math.round(decode.utilisation * 100)} % used`,
      `no other change for ${Math.round(restMs / 1000)} s`,
    ].join('; ')
  }
}

function otherThan(role: Role): Role {
  return role === 'prefill' ? 'decode' : 'prefill'
}
