/**
 * A worker's promise to one frontend to change its role only for it, for some time. A frontend that wants to change a
 * role asks all workers of the model that could change. So two frontends that cannot reach each other do not both
 * change a worker, although each sees all workers: the workers decide.
 *
 * The promise outlives a change of the worker's role. It ends by itself, so a frontend that dies blocks nothing longer.
 */
export interface HoldAnswer {
  readonly granted: boolean
  /** Milliseconds for which another frontend's hold still lasts; 0 if granted. */
  readonly leftMs: number
}

/** No frontend may hold a worker longer than this at once. */
const HOLD_MAX_MS = 600_000

export class RoleHold {
  #by: string | null = null
  #untilMs = -Infinity

  /** `by` names one change of one frontend. */
  ask(by: string, forMs: number, nowMs: number): HoldAnswer {
    if (nowMs < this.#untilMs && this.#by !== by) {
      return { granted: false, leftMs: this.#untilMs - nowMs }
    }
    this.#by = by
    this.#untilMs = nowMs + Math.min(forMs, HOLD_MAX_MS)
    return { granted: true, leftMs: 0 }
  }

  /** The change does not take place. */
  release(by: string): void {
    if (this.#by === by) this.#untilMs = -Infinity
  }

  isHeldBy(by: string, nowMs: number): boolean {
    return this.#by === by && nowMs < this.#untilMs
  }

  /** An administrator has changed the role: no frontend changes it for this time. */
  restFor(ms: number, nowMs: number): void {
    this.#by = null
    this.#untilMs = nowMs + ms
  }
}
