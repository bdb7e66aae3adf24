/**
 * Finds the values of a label (models, workers) that have left, so that their series do not accumulate.
 *
 * A value that was absent in two scrapes in a row has left; the scrape in between shows its last counts once more.
 */
export class Departures {
  #absent: ReadonlySet<string> = new Set()

  /** Called at each scrape: which of the known values have left. */
  among(known: Iterable<string>, current: ReadonlySet<string>): readonly string[] {
    const absent = [...known].filter((value) => !current.has(value))
    const left = absent.filter((value) => this.#absent.has(value))
    this.#absent = new Set(absent)
    return left
  }
}
