/**
 * Formats an engine's own metrics as Prometheus text, for the worker's page.
 *
 * An engine is foreign code, so a metric that violates the format is left out and cannot break the page.
 */
import { BatonError, isEngineMetric } from '../../engine/index.ts'
import type { EngineMetric } from '../../engine/index.ts'
import type { MetricsFormat } from './metrics-page.ts'
import { openMetricsHead } from './open-metrics-text.ts'

const PREFIX = 'baton_engine_'
/** A list of a billion holes would stop the worker's streams while it is read. */
const METRICS_MAX = 10_000

/** `labels`: the worker's labels, which take precedence over the engine's. Throws if there are too many metrics. */
export function engineMetricsText(
  metrics: readonly EngineMetric[],
  labels: Readonly<Record<string, string>> = {},
  format: MetricsFormat = 'prometheus',
): string {
  const families = new Map<string, EngineMetric[]>()
  const { length } = metrics
  if (!(length <= METRICS_MAX)) {
    const text = `the engine has ${length} metrics: expected a list of at most ${METRICS_MAX}`
    throw new BatonError('backend.contract_violation', text)
  }
  for (let i = 0; i < length; i++) {
    const metric = metrics[i]
    if (metric === undefined || !isEngineMetric(metric)) continue
    const family = families.get(metric.name) ?? []
    // The first metric of a family determines its kind.
    if (family[0] !== undefined && family[0].kind !== metric.kind) continue
    family.push(metric)
    families.set(metric.name, family)
  }
  return [...families]
    .map(([name, family]) => familyText(PREFIX + name, family, labels, format))
    .join('')
}

function familyText(
  name: string,
  family: readonly EngineMetric[],
  labels: Readonly<Record<string, string>>,
  format: MetricsFormat,
): string {
  const [{ help, kind } = { help: '', kind: 'gauge' }] = family
  const samples = new Map<string, number>()
  for (const metric of family) {
    samples.set(labelsText({ ...sorted(metric.labels), ...labels }), metric.value)
  }
  const head =
    format === 'openmetrics'
      ? openMetricsHead({ name, help, type: kind }).trimEnd()
      : `# HELP ${name} ${escapeText(help)}\n# TYPE ${name} ${kind}`
  return [
    head,
    ...[...samples].map(([label, value]) => `${name}${label} ${numberText(value)}`),
    '',
  ].join('\n')
}

/** In one order: an engine may give the labels of a sample in another order at the next scrape, or twice in one. */
function sorted(labels: EngineMetric['labels'] = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function labelsText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${escapeText(String(value)).replaceAll('"', '\\"')}"`,
  )
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escapeText(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

function numberText(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value)
  return value > 0 ? '+Inf' : '-Inf'
}
