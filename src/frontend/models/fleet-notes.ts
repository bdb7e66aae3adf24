/** Texts about missing parts of the fleet, for the warnings of `/health`. */
export class FleetNotes {
  readonly #texts = new Map<string, string>()

  get texts(): readonly string[] {
    return [...this.#texts.values()]
  }

  /** Null: the part is present. */
  set(name: string, text: string | null): void {
    if (text === null) this.#texts.delete(name)
    else this.#texts.set(name, text)
  }
}
