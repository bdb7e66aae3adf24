/**
 * Makes sure that only one frontend at a time changes a worker's role. Each frontend announces its change and waits
 * longer than a message takes; of those that announced within that time, the one with the lowest name makes its
 * change and the others wait. Pure: the caller sends the messages and keeps the time.
 *
 * Frontends that cannot reach each other both go ahead; each of them sees only its part of the fleet anyway.
 */
import type { RoleChange } from './role-controller.ts'

/** How to react to another frontend's change. */
export type OnOtherChange =
  /** The other frontend goes ahead; our change is dropped. */
  | { readonly kind: 'yield'; readonly change: RoleChange }
  /** The other frontend receives our announcement and drops its own. */
  | { readonly kind: 'keep' }
  /** We have no announced change: wait for the effect of the other one. */
  | { readonly kind: 'rest' }

export class RoleClaims {
  readonly #self: string
  readonly #waiting = new Map<string, RoleChange>()

  constructor(self: string) {
    this.#self = self
  }

  /** Announces our change, valid until `take`. `model`: with its version. */
  claim(model: string, change: RoleChange): void {
    this.#waiting.set(model, change)
  }

  /** `by`: name of the frontend that announces a change; null: it has been made. */
  heard(model: string, by: string | null): OnOtherChange {
    const change = this.#waiting.get(model)
    if (change === undefined) return { kind: 'rest' }
    if (by !== null && by >= this.#self) return { kind: 'keep' }
    this.#waiting.delete(model)
    return { kind: 'yield', change }
  }

  /** Call when the waiting time is over; null: another frontend goes ahead instead. */
  take(model: string): RoleChange | null {
    const change = this.#waiting.get(model) ?? null
    this.#waiting.delete(model)
    return change
  }
}
