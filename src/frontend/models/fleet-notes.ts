/** Notes about missing parts of the fleet, for the warnings of `/health`, `baton top` and `baton doctor`. */
type FleetNoteKind =
  | 'silent-worker'
  | 'unanswered-address'
  | 'upstream-away'
  | 'forwarded-unchanged'
  | 'kv-events-unused'
  | 'worker-away'
  | 'frontend-away'
  | 'certificate-age'
  | 'keys'

export interface FleetNote {
  /** What the advice depends on. */
  readonly kind: FleetNoteKind
  /** For people who operate the fleet. */
  readonly text: string
  /** The reason why no model can be served, for everybody: without paths. */
  readonly why?: string
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
