/**
 * The answer to a scrape: Prometheus text, or on request OpenMetrics, which also has exemplars.
 */

export type MetricsFormat = 'prometheus' | 'openmetrics'

export interface MetricsPage {
  readonly contentType: string
  readonly body: string
}

export const METRICS_TYPES: Readonly<Record<MetricsFormat, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

export const OPEN_METRICS_END = '# EOF\n'

/**
 * `accept`: the header of a scrape. OpenMetrics only if it is named and preferred at least as much as plain text.
 */
export function metricsFormat(accept: string | undefined): MetricsFormat {
  const ranges = (accept ?? '').split(',').map(parsedRange)
  const openMetrics = weightOf(ranges, 'application/openmetrics-text')
  return openMetrics > 0 && openMetrics >= weightOf(ranges, 'text/plain')
    ? 'openmetrics'
    : 'prometheus'
}

interface MediaRange {
  readonly type: string
  readonly weight: number
}

function parsedRange(text: string): MediaRange {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const given = parameters.find((parameter) => parameter.startsWith('q='))
  const weight = given === undefined ? 1 : Number(given.slice(2))
  return { type, weight: Number.isFinite(weight) ? weight : 0 }
}

function weightOf(ranges: readonly MediaRange[], type: string): number {
  return Math.max(0, ...ranges.filter((range) => range.type === type).map(({ weight }) => weight))
}
