/**
 * A histogram whose series are found once and then written to as columns of numbers.
 *
 * The library's `observe` checks the labels, makes a key of them and looks the series up, for each value anew: with a dozen
 * histograms per request that was a tenth of the request's CPU. What is scraped is the same.
 */
import { Histogram } from 'prom-client'
import type { HistogramConfiguration } from 'prom-client'
import type { Exemplar } from './open-metrics-text.ts'

type Labels = Readonly<Record<string, string>>

/** The values of one set of labels. */
export class HistogramSeries {
  readonly labels: Labels
  readonly #bounds: readonly number[]
  /** By bucket, not cumulated; the last one is of values beyond every bound. */
  readonly counts: Float64Array
  sum = 0
  /** By bucket: the last value that was of a trace. */
  #exemplars: (Exemplar | undefined)[] | null = null

  constructor(labels: Labels, bounds: readonly number[]) {
    this.labels = labels
    this.#bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  /** One without labels is there from the start, as the library has it: a rate over its first value needs the zero. */
  get isShown(): boolean {
    return Object.keys(this.labels).length === 0 || this.counts.some((count) => count > 0)
  }

  /** `traceId`: of the trace that is recorded of it, with the time. */
  observe(value: number, traceId?: string, epochMs = 0): void {
    const bounds = this.#bounds
    let at = 0
    while (at < bounds.length && value > (bounds[at] as number)) at++
    this.counts[at] = (this.counts[at] as number) + 1
    this.sum += value
    if (traceId === undefined) return
    this.#exemplars ??= []
    this.#exemplars[at] = { traceId, value, epochMs }
  }

  exemplar(bucket: number): Exemplar | undefined {
    return this.#exemplars?.[bucket]
  }
}

interface Sample {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly sharedLabels: Labels
  readonly value: number
  readonly exemplar?: Exemplar
}

export class SeriesHistogram extends Histogram {
  readonly #settings: HistogramConfiguration<string>
  readonly #bounds: readonly number[]
  readonly #series: HistogramSeries[] = []

  constructor(settings: HistogramConfiguration<string> & { readonly buckets: number[] }) {
    super(settings)
    this.#settings = settings
    this.#bounds = settings.buckets
  }

  /** A new series; whoever asks keeps it, one for each set of labels. */
  series(labels: Labels): HistogramSeries {
    const series = new HistogramSeries(labels, this.#bounds)
    this.#series.push(series)
    return series
  }

  /** What the registry reads at a scrape; the library's `get` is made of it. A labelled series without a value is left out. */
  async getForPromString(): Promise<object> {
    const { name, help } = this.#settings
    const values = this.#series.flatMap((series) => (series.isShown ? this.#samplesOf(series) : []))
    return await Promise.resolve({ name, help, type: 'histogram', aggregator: 'sum', values })
  }

  #samplesOf(series: HistogramSeries): readonly Sample[] {
    const { labels, counts, sum } = series
    const { name } = this.#settings
    const samples: Sample[] = []
    let count = 0
    for (const [at, some] of counts.entries()) {
      count += some
      const le = this.#bounds[at] ?? '+Inf'
      const exemplar = series.exemplar(at)
      samples.push({
        metricName: `${name}_bucket`,
        labels: { le },
        sharedLabels: labels,
        value: count,
        ...(exemplar === undefined ? {} : { exemplar }),
      })
    }
    samples.push({ metricName: `${name}_sum`, labels: {}, sharedLabels: labels, value: sum })
    samples.push({ metricName: `${name}_count`, labels: {}, sharedLabels: labels, value: count })
    return samples
  }
}
