/**
 * Counts by labels, kept as plain numbers and handed to a metric when somebody reads it.
 *
 * The library's `inc` checks the labels and sorts them into a key for each count anew: half a dozen of them were a tenth of a
 * forwarded request. Bounded by whoever counts: its labels are.
 */
type Labels = Record<string, string>

interface LabelledCount {
  readonly labels: Labels
  count: number
}

/** A counter or a gauge. */
interface Written {
  reset(): void
  inc(labels: Labels, by: number): void
}

export class LabelledCounts {
  readonly #names: readonly string[]
  readonly #counts = new Map<string, LabelledCount>()

  constructor(names: readonly string[]) {
    this.#names = names
  }

  /** `values` in the order of the names. */
  add(by: number, ...values: readonly string[]): void {
    const key = values.length === 1 ? (values[0] as string) : values.join('\n')
    const known = this.#counts.get(key)
    if (known !== undefined) {
      known.count += by
      return
    }
    const labels = Object.fromEntries(this.#names.map((name, at) => [name, values[at] ?? '']))
    this.#counts.set(key, { labels, count: by })
  }

  remove(...values: readonly string[]): void {
    this.#counts.delete(values.join('\n'))
  }

  writeTo(metric: Written): void {
    metric.reset()
    for (const { labels, count } of this.#counts.values()) metric.inc(labels, count)
  }
}
