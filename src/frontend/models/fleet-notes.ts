/** Notes about missing parts of the fleet, for the warnings of `/health`, `baton top` and `baton doctor`. */
export type FleetNoteKind = 'silent-worker' | 'upstream-away' | 'forwarded-unchanged'

export interface FleetNote {
  /** What the advice depends on. */
  readonly kind: FleetNoteKind
  /** For people. */
  readonly text: string
}

export class FleetNotes {
  readonly #notes = new Map<string, FleetNote>()

  get all(): readonly FleetNote[] {
    return [...this.#notes.values()]
  }

  /** Null: the part is present. */
  set(name: string, note: FleetNote | null): void {
    if (note === null) this.#notes.delete(name)
    else this.#notes.set(name, note)
  }
}
