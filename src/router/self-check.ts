/**
 * Says in words whether what is configured also happens: KV events arrive, disaggregation is taken, and if not, why.
 */
import type { DisaggregationStatus, PoolStatus, RouterStatus } from './router-status.ts'

export function selfCheck(facts: Omit<RouterStatus, 'warnings' | 'selfCheck'>): RouterStatus {
  const warnings: string[] = []
  const lines: string[] = []
  checkEvents('prefill', facts.prefill, lines, warnings)
  checkEvents('decode', facts.decode, lines, warnings)
  checkDisaggregation(facts.disaggregation, lines, warnings)
  return { ...facts, warnings, selfCheck: lines }
}

function checkEvents(name: string, pool: PoolStatus, lines: string[], warnings: string[]): void {
  if (pool.mode !== 'kv' || pool.workers === 0) return
  const { kvEventWorkers: seen, kvEventWorkersExpected: expected } = pool
  lines.push(`${name}: KV events from ${seen} of ${expected} workers`)
  if (pool.decisions > 0 && seen < expected) {
    warnings.push(
      `KV routing of the ${name} pool sees no events from ${expected - seen} of ${expected} workers`,
    )
  }
  if (pool.kvEventGaps > 0) {
    warnings.push(`${name}: ${pool.kvEventGaps} gaps in the KV events; the index may lag behind`)
  }
}

function checkDisaggregation(
  status: DisaggregationStatus,
  lines: string[],
  warnings: string[],
): void {
  if (status.state === 'disabled') return
  const { requests, disaggregated } = status
  const percent = requests === 0 ? 0 : Math.round((100 * disaggregated) / requests)
  const reasons = Object.entries(status.aggregatedBy)
    .sort((a, b) => b[1] - a[1])
    .map(([reason, count]) => `${reason} (${count})`)
  const why = reasons.length === 0 ? '' : `; aggregated: ${reasons.join(', ')}`
  lines.push(`disaggregation (${status.state}) taken in ${percent} % of ${requests} requests${why}`)
  if (status.state === 'unavailable') warnings.push('all prefill workers are gone')
  if (status.state === 'active' && requests > 0 && disaggregated === 0) {
    warnings.push(`disaggregation is on but never taken${why}`)
  }
}
