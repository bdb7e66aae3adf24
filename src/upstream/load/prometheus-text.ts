/**
 * Metrics of a foreign server in the text form of Prometheus, as far as a router wants them.
 */
export interface MetricSample {
  /** With `:` as it was written; some builds write `_` instead, see `metricValue`. */
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g

/** `prefixes`: of the names that are wanted; a server may tell a thousand others every second. */
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

/** All samples under the first of the names that is there. */
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

/** Their sum; null: there is none of that name. */
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
