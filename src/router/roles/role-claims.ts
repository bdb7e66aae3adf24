/**
 * One frontend at a time changes a role of a model. Each says that it is about to and waits for longer than a message takes;
 * of those that say so within that time the one with the lowest name changes it, and the others rest. Pure: the caller
 * sends the messages and keeps the time.
 *
 * Frontends that cannot hear each other both go on: then each has a part of the picture anyway.
 */
import type { RoleChange } from './role-controller.ts'

/** What is to be done about another frontend's change. */
export type OnOtherChange =
  /** It goes on instead of ours, which is given up. */
  | { readonly kind: 'yield'; readonly change: RoleChange }
  /** It hears of ours and gives its own up. */
  | { readonly kind: 'keep' }
  /** Nothing of ours is waiting: its change is waited for. */
  | { readonly kind: 'rest' }

export class RoleClaims {
  readonly #self: string
  readonly #waiting = new Map<string, RoleChange>()

  constructor(self: string) {
    this.#self = self
  }

  /** Ours, from now until `take`. `model`: with its version. */
  claim(model: string, change: RoleChange): void {
    this.#waiting.set(model, change)
  }

  /** `by`: who is about to change a worker; null: it has been changed. */
  heard(model: string, by: string | null): OnOtherChange {
    const change = this.#waiting.get(model)
    if (change === undefined) return { kind: 'rest' }
    if (by !== null && by >= this.#self) return { kind: 'keep' }
    this.#waiting.delete(model)
    return { kind: 'yield', change }
  }

  /** When the time is over; null: another frontend goes on instead. */
  take(model: string): RoleChange | null {
    const change = this.#waiting.get(model) ?? null
    this.#waiting.delete(model)
    return change
  }
}
