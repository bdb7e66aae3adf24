/**
 * Counts by label values, stored as plain numbers and passed to a metric when it is read.
 *
 * The library's `inc` validates and sorts the labels for each count; half a dozen of them took a tenth of a forwarded
 * request's time. Recently used labels are found by comparison, without making a key. The caller bounds the number of
 * label combinations.
 */
type Labels = Record<string, string>

interface LabelledCount {
  readonly values: readonly string[]
  readonly labels: Labels
  count: number
}

const RECENT = 8

/** A counter or a gauge. */
interface Written {
  reset(): void
  inc(labels: Labels, by: number): void
}

export class LabelledCounts {
  readonly #names: readonly string[]
  readonly #counts = new Map<string, LabelledCount>()
  /** Unordered; the next count that is looked up by its key replaces one of them. */
  readonly #recent: LabelledCount[] = []
  #nextPlace = 0

  constructor(names: readonly string[]) {
    this.#names = names
  }

  /** `values`: in the order of the label names. */
  add(by: number, ...values: readonly string[]): void {
    for (const each of this.#recent) {
      if (!isSame(each.values, values)) continue
      each.count += by
      return
    }
    const counted = this.#entryOf(values)
    counted.count += by
    this.#recent[this.#nextPlace] = counted
    this.#nextPlace = (this.#nextPlace + 1) % RECENT
  }

  remove(...values: readonly string[]): void {
    this.#counts.delete(values.join('\n'))
    const at = this.#recent.findIndex((each) => isSame(each.values, values))
    if (at < 0) return
    this.#recent.splice(at, 1)
    this.#nextPlace = this.#recent.length % RECENT
  }

  /** Removes every count whose first label has this value. */
  removeAll(first: string): void {
    for (const [key, { values }] of this.#counts) if (values[0] === first) this.#counts.delete(key)
    this.#recent.length = 0
    this.#nextPlace = 0
  }

  countOf(...values: readonly string[]): number {
    return this.#counts.get(values.join('\n'))?.count ?? 0
  }

  #entryOf(values: readonly string[]): LabelledCount {
    const key = values.join('\n')
    const known = this.#counts.get(key)
    if (known !== undefined) return known
    const labels = Object.fromEntries(this.#names.map((name, at) => [name, values[at] ?? '']))
    const made = { values, labels, count: 0 }
    this.#counts.set(key, made)
    return made
  }

  writeTo(metric: Written): void {
    metric.reset()
    for (const { labels, count } of this.#counts.values()) metric.inc(labels, count)
  }
}

/** Compared from the end, because the last labels differ most often. */
function isSame(left: readonly string[], right: readonly string[]): boolean {
  if (left.length !== right.length) return false
  for (let at = left.length - 1; at >= 0; at--) if (left[at] !== right[at]) return false
  return true
}
