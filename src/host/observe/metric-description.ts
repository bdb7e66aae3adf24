/** Describes metrics for docs/metrics.md; read from the registry, so that none can be missing. */
import type { Registry } from 'prom-client'

export interface MetricDescription {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly type: string
}

export function describeMetrics(registry: Registry): readonly MetricDescription[] {
  return registry.getMetricsAsArray().map((metric) => {
    // The library's types omit fields that every metric has.
    const { name, help, labelNames, type } = metric as unknown as MetricDescription
    return { name, help, labelNames, type }
  })
}
