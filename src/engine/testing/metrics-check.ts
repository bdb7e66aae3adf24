/** Reads the metrics of an engine several times, as scrapes would, and validates them. */
import { isEngineMetric } from '../engine-metric.ts'
import type { EngineMetric } from '../engine-metric.ts'
import type { ConformanceSubject } from './conformance-subject.ts'
import { thrownText } from './thrown-text.ts'

export async function checkMetrics(subject: ConformanceSubject): Promise<void> {
  const { engine, report } = subject
  if (engine.metrics === undefined) {
    report.skip('metrics', 'the engine has no metrics')
    return
  }
  await subject.read(subject.request(2))
  let readings: (readonly EngineMetric[])[]
  try {
    const before = engine.metrics()
    await subject.read(subject.request(2))
    readings = [engine.metrics(), engine.metrics(), before]
  } catch (error) {
    report.fail('metrics-failed', thrownText(error))
    return
  }
  const invalidMetric = readings.map(invalidIn).find((found) => found !== undefined)
  if (invalidMetric !== undefined) {
    report.fail('metrics-invalid', invalidMetric)
    return
  }
  const [first = [], second = []] = readings
  const change = onlyIn(first, second) ?? onlyIn(second, first)
  if (change !== undefined) report.fail('metrics-unstable', `${change} is not in both`)
  const lower = decreased(readings)
  if (lower !== undefined) report.fail('counter-decreases', lower)
}

function invalidIn(metrics: readonly EngineMetric[]): string | undefined {
  try {
    return invalidMetricOf(metrics)
  } catch (thrown) {
    return `a metric cannot be read: ${thrownText(thrown)}`
  }
}

/** The first invalid metric of a reading. */
function invalidMetricOf(metrics: readonly EngineMetric[]): string | undefined {
  if (!Array.isArray(metrics)) return '`metrics` did not return a list'
  const seen = new Set<string>()
  const forms = new Map<string, string>()
  for (const [index, metric] of (metrics as readonly EngineMetric[]).entries()) {
    if (!isEngineMetric(metric)) return `number ${index}`
    const series = seriesOf(metric)
    if (seen.has(series)) return `${series} twice`
    seen.add(series)
    const form = formOf(metric)
    const first = forms.get(metric.name) ?? form
    if (form !== first) return `${metric.name}: first ${first}, then ${form}`
    forms.set(metric.name, form)
  }
  return undefined
}

/** A metric's identity for a scraper, to which the order of labels means nothing. */
function seriesOf({ name, labels = {} }: EngineMetric): string {
  const sorted = Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `${name} ${JSON.stringify(Object.fromEntries(sorted))}`
}

/** What all metrics of one name have in common. */
function formOf({ kind, labels = {} }: EngineMetric): string {
  const names = Object.keys(labels).toSorted()
  return names.length === 0 ? kind : `${kind} by ${names.join(', ')}`
}

/** The first counter that decreased; the readings are from before, between and after requests, in order of time. */
function decreased([second, third, first]: readonly (readonly EngineMetric[])[]):
  | string
  | undefined {
  const seen = new Map<string, number>()
  for (const metric of [...(first ?? []), ...(second ?? []), ...(third ?? [])]) {
    if (metric.kind !== 'counter') continue
    const series = seriesOf(metric)
    const before = seen.get(series)
    if (before !== undefined && metric.value < before)
      return `${series}: ${before}, ${metric.value}`
    seen.set(series, metric.value)
  }
  return undefined
}

/** A series of one reading that the other does not have; its value may differ. */
function onlyIn(
  reading: readonly EngineMetric[],
  other: readonly EngineMetric[],
): string | undefined {
  const others = new Set(other.map((metric) => `${seriesOf(metric)} (${metric.kind})`))
  return reading
    .map((metric) => `${seriesOf(metric)} (${metric.kind})`)
    .find((series) => !others.has(series))
}
