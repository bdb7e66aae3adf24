/**
 * Parses the metrics of a foreign server in the Prometheus text format, as far as a router needs them.
 */
export interface MetricSample {
  /** With `:` as written; some builds write `_` instead, see `metricValue`. */
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g

/** `prefixes`: of the requested names; a server may have a thousand others. */
export function parsePrometheus(
  text: string,
  prefixes: readonly string[] = [''],
): readonly MetricSample[] {
  const samples: MetricSample[] = []
  for (const line of text.split('\n')) {
    if (line.startsWith('#') || !prefixes.some((prefix) => line.startsWith(prefix))) continue
    const match = SAMPLE.exec(line)
    if (match === null) continue
    const [, name = '', labelText = '', number = ''] = match
    const value = Number(number.replace(/^\+?Inf$/, 'Infinity').replace(/^-Inf$/, '-Infinity'))
    if (Number.isNaN(value)) continue
    const labels: Record<string, string> = {}
    for (const label of labelText.matchAll(LABEL)) labels[label[1] as string] = label[2] as string
    samples.push({ name, labels, value })
  }
  return samples
}

/** All samples with the first of the names that exists. */
export function metricSamples(
  samples: readonly MetricSample[],
  names: readonly string[],
): readonly MetricSample[] {
  for (const name of names) {
    const wanted = plain(name)
    const found = samples.filter((sample) => plain(sample.name) === wanted)
    if (found.length > 0) return found
  }
  return []
}

/** Their sum; null: no sample has one of the names. */
export function metricValue(
  samples: readonly MetricSample[],
  names: readonly string[],
): number | null {
  const found = metricSamples(samples, names)
  return found.length === 0 ? null : found.reduce((sum, { value }) => sum + value, 0)
}

function plain(name: string): string {
  return name.replaceAll(':', '_')
}
