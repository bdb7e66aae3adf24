/** What is to be in the fleet and is not, in the words of whoever looks after it; part of the warnings of `/health`. */
export class FleetNotes {
  readonly #texts = new Map<string, string>()

  get texts(): readonly string[] {
    return [...this.#texts.values()]
  }

  /** Null: all is well with it. */
  set(name: string, text: string | null): void {
    if (text === null) this.#texts.delete(name)
    else this.#texts.set(name, text)
  }
}
