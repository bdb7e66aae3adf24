/**
 * Formats a registry as OpenMetrics text, without the end mark.
 *
 * The library supports this format too, but permanently renames the registry's counters when it writes it, so that
 * plain text would then have other names. Here a metric has the same name in both formats; only the head of a
 * counter's family lacks `_total`, as the standard requires.
 */
import type { Registry } from 'prom-client'

/** A value in a bucket, and the trace that it belongs to. */
export interface Exemplar {
  readonly traceId: string
  readonly value: number
  readonly epochMs: number
}

interface Sample {
  readonly metricName?: string
  readonly labels?: Readonly<Record<string, string | number>>
  readonly sharedLabels?: Readonly<Record<string, string | number>>
  readonly value: number
  readonly exemplar?: Exemplar | null
}

interface Family {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly values?: readonly Sample[]
}

/** `labels`: added to every line. */
export async function openMetricsText(
  registry: Registry,
  labels: Readonly<Record<string, string>> = {},
): Promise<string> {
  const families = await Promise.all(
    registry.getMetricsAsArray().map(async (metric) => {
      // The library's types omit fields that every metric has.
      const asked = metric as unknown as {
        getForPromString?: () => Promise<Family>
        get: () => Promise<Family>
      }
      return await (asked.getForPromString?.() ?? asked.get())
    }),
  )
  return families.map((family) => familyText(family, labels)).join('')
}

/** The lines that describe a family. */
export function openMetricsHead({ name, help, type }: Omit<Family, 'values'>): string {
  const family = type === 'counter' ? name.replace(/_total$/, '') : name
  return `# HELP ${family} ${escaped(help)}\n# TYPE ${family} ${type}\n`
}

function familyText(family: Family, shared: Readonly<Record<string, string>>): string {
  const lines = (family.values ?? []).map((sample) => {
    const { metricName = family.name, value, exemplar } = sample
    const labels = { ...sample.labels, ...sample.sharedLabels, ...shared }
    const line = `${metricName}${labelsText(labels)} ${numberText(value)}`
    return exemplar === undefined || exemplar === null
      ? `${line}\n`
      : `${line} # ${exemplarText(exemplar)}\n`
  })
  return openMetricsHead(family) + lines.join('')
}

function labelsText(labels: Readonly<Record<string, string | number>>): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${name === 'le' ? boundText(value) : escaped(String(value))}"`,
  )
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function exemplarText({ traceId, value, epochMs }: Exemplar): string {
  return `{trace_id="${traceId}"} ${numberText(value)} ${(epochMs / 1000).toFixed(3)}`
}

/** The standard requires whole numbers among the bounds to be written like `1.0`. */
function boundText(bound: string | number): string {
  return typeof bound === 'number' && Number.isInteger(bound) && bound < 1e6
    ? bound.toFixed(1)
    : String(bound)
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')
}

function numberText(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value)
  return value > 0 ? '+Inf' : '-Inf'
}
