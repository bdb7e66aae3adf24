/** One metric of an engine, in Prometheus terms. The worker adds its own labels. */
export interface EngineMetric {
  /** Letters, digits and `_`; exported as `baton_engine_<name>`. A counter's name ends with `_total`. */
  readonly name: string
  readonly help: string
  /** A counter only increases; a gauge is a current value. */
  readonly kind: 'counter' | 'gauge'
  readonly value: number
  /** Metrics with the same name have the same label names and different label values. */
  readonly labels?: Readonly<Record<string, string>>
}

const NAME = /^[a-z_][a-z0-9_]*$/i
const LABEL = /^(?!__)[a-z_][a-z0-9_]*$/i

/** Validates a metric, because an engine is third-party code. */
export function isEngineMetric(metric: EngineMetric): boolean {
  if (typeof metric !== 'object' || metric === null) return false
  const { name, help, kind, value, labels = {} } = metric
  if (typeof name !== 'string' || typeof help !== 'string' || typeof value !== 'number')
    return false
  const isKind = kind === 'gauge' || (kind === 'counter' && name.endsWith('_total') && value >= 0)
  if (!isKind || !NAME.test(name) || typeof labels !== 'object' || labels === null) return false
  return Object.entries(labels).every(
    ([label, text]) => LABEL.test(label) && typeof text === 'string',
  )
}
