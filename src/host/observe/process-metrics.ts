/** Metrics of the process itself (CPU, memory, event loop, file descriptors), from prom-client. */
import { collectDefaultMetrics } from 'prom-client'
import type { Registry } from 'prom-client'

/** Sums of gauges that have the same name without `_total`. They are gauges, and the suffix is reserved for counters. */
const MISNAMED = [
  'nodejs_active_resources_total',
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
]

/** `prefix`: of all names, as `baton_worker_`. */
export function collectProcessMetrics(
  register: Registry,
  prefix: string,
  options: { readonly eventLoopMonitoringPrecision?: number } = {},
): void {
  collectDefaultMetrics({ register, prefix, ...options })
  for (const name of MISNAMED) register.removeSingleMetric(`${prefix}${name}`)
}
